package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/accelmux/accelmux/core/procfs"
)

const (
	// socketPath is the maximum length of a unix socket's path, in bytes: sun_path in
	// unix(7) has 108 with its final zero.
	socketPath = 107
	// socketRoom is the length of go-plugin's directory and a socket in it, below the socket
	// directory: "/plugin-dir" and "/plugin", each with up to ten digits, and a reserve for
	// backends that choose the socket's name.
	socketRoom = 21 + 25
)

// openSocketDir creates the private directory for the backends' sockets, and removes what
// an earlier run left in it. It is below the run directory unless that path is too long for
// a socket. The caller has locked the run directory, so no other agent uses it.
func openSocketDir(runDir string) (string, error) {
	dir, err := socketDirOf(runDir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for backend sockets: %w", err)
	}
	// In a shared temporary directory another user may have created it.
	var stat syscall.Stat_t
	if err := syscall.Lstat(dir, &stat); err != nil {
		return "", fmt.Errorf("read the directory for backend sockets: %w", err)
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s must be a directory of user %d, for backend sockets: remove it", dir, os.Geteuid())
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for backend sockets private: %w", err)
	}
	endOrphans(dir)
	if err := empty(dir); err != nil {
		return "", fmt.Errorf("empty the directory for backend sockets: %w", err)
	}
	return dir, nil
}

// socketDirOf returns the path of the socket directory, which need not exist. The path
// contains no symbolic link: [endOrphans] does not follow any.
func socketDirOf(runDir string) (string, error) {
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return "", fmt.Errorf("make the run directory: %w", err)
	}
	runDir, err := filepath.EvalSymlinks(runDir)
	if err != nil {
		return "", fmt.Errorf("find the run directory: %w", err)
	}
	dir := filepath.Join(runDir, "backends")
	if len(dir)+socketRoom <= socketPath {
		return dir, nil
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(runDir, &stat); err != nil {
		return "", fmt.Errorf("find the run directory: %w", err)
	}
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return "", fmt.Errorf("find the temporary directory: %w", err)
	}
	// The name contains the run directory's device and inode: in another mount namespace
	// another agent's run directory may have the same path, with the same temporary
	// directory.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d", stat.Dev, stat.Ino))
	dir = filepath.Join(temp, "accelmux-"+hex.EncodeToString(sum[:6]))
	if len(dir)+socketRoom > socketPath {
		return "", fmt.Errorf("neither the run directory %s nor %s is short enough for sockets (%d bytes): choose a shorter run directory",
			runDir, temp, socketPath-socketRoom)
	}
	return dir, nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, entry := range entries {
		failed = append(failed, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return errors.Join(failed...)
}

// endOrphans kills processes that the backends of a killed agent left running: the kernel
// kills a backend with its agent, but not the backend's children.
//
// Such a process has its backend's socket directory in its environment. The path alone is
// no proof, because it is the same in every container: the directory that the process sees
// at that path (proc_pid_root(5)) must be an entry of dir. Then its agent has ended, because
// the caller has locked dir. Processes that cannot be inspected are not killed.
func endOrphans(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // empty reports the error
	}
	left := map[string]os.FileInfo{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			left[entry.Name()] = info
		}
	}
	if len(left) == 0 {
		return
	}
	extinguish(func(visit func(*os.Process)) {
		eachProcess(func(process *os.Process) {
			path := socketDirIn(process.Pid)
			known := left[filepath.Base(path)]
			if known == nil {
				return
			}
			root, err := os.OpenRoot(filepath.Join(procfs.Dir(process.Pid), "root"))
			if err != nil {
				return
			}
			defer func() { _ = root.Close() }()
			// A Root does not follow links out of that tree, which would lead into this
			// process's own.
			if info, err := root.Stat(strings.TrimPrefix(path, "/")); err == nil && os.SameFile(info, known) {
				visit(process)
			}
		})
	})
}
