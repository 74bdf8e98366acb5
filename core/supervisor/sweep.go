package supervisor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	// socketPath is the most that a unix socket's path may have: sun_path in
	// unix(7) is 108 bytes with its final zero.
	socketPath = 107
	// socketRoom is what go-plugin's directory and a socket in it need below the
	// socket directory: "/plugin-dir" and "/plugin", each with up to ten digits, and
	// some more for backends that choose their own socket's name.
	socketRoom = 21 + 25
)

// openSocketDir makes the private directory for the backends' sockets, emptied of
// what an earlier run left. It is below the run directory unless that is too
// deep for a socket's path.
func openSocketDir(runDir string) (string, error) {
	dir := filepath.Join(runDir, "backends")
	if len(dir)+socketRoom > socketPath {
		sum := sha256.Sum256([]byte(runDir))
		dir = filepath.Join(os.TempDir(), "accelmux-"+hex.EncodeToString(sum[:6]))
		if len(dir)+socketRoom > socketPath {
			return "", fmt.Errorf("neither the run directory %s nor %s is short enough for sockets (%d bytes): choose a shorter run directory",
				runDir, os.TempDir(), socketPath-socketRoom)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for backend sockets: %w", err)
	}
	// In a shared temporary directory somebody else may have been first.
	var stat syscall.Stat_t
	if err := syscall.Lstat(dir, &stat); err != nil {
		return "", fmt.Errorf("look at the directory for backend sockets: %w", err)
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is to hold backend sockets, but is not a directory of our own: remove it", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for backend sockets private: %w", err)
	}
	endOrphans(dir)
	if err := empty(dir); err != nil {
		return "", fmt.Errorf("sweep the directory for backend sockets: %w", err)
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

// endOrphans kills what an earlier run's backends left: a parent-death signal
// ends the backend, but not its children. They are known by the socket directory
// in their environment, which is below ours and nobody else's. The numbers in our
// own /proc are meant here, never those of a host's tree.
func endOrphans(dir string) {
	marker := []byte("PLUGIN_UNIX_SOCKET_DIR=" + dir + string(filepath.Separator))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return // no /proc, no way to know
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil {
			continue // not ours, or gone
		}
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			if bytes.HasPrefix(variable, marker) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
