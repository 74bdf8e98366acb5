package plug

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	// passable lets the backends' users reach what is theirs, and see nothing else.
	passable = 0o711
)

// openSocketDir creates the directory for the backends' sockets, each in a private directory of its user's, and removes
// what an earlier run left in it. The caller has locked the run directory, so no other agent uses
// it. The path that it returns contains no symbolic link: [endOrphans] does not follow any.
func openSocketDir(runDir string) (string, error) {
	if err := os.MkdirAll(filepath.Join(runDir, "backends"), passable); err != nil {
		return "", fmt.Errorf("make the directory for backend sockets: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(runDir, "backends"))
	if err != nil {
		return "", fmt.Errorf("find the directory for backend sockets: %w", err)
	}
	if len(dir)+socketRoom > socketPath {
		return "", fmt.Errorf("the run directory %s is too long for sockets: choose one of at most %d bytes", runDir, socketPath-socketRoom-len("/backends"))
	}
	if err := os.Chmod(dir, passable); err != nil {
		return "", fmt.Errorf("open the directory for backend sockets to the backends' users: %w", err)
	}
	endOrphans(dir)
	if err := empty(dir); err != nil {
		return "", fmt.Errorf("empty the directory for backend sockets: %w", err)
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
			kill(process)
		}
	})
}
