package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

// The environment of a test that runs again in a process with mounts of its own: its
// name, and where the programs are.
const (
	mountsEnv   = "ACCELMUX_TEST_MOUNTS"
	programsEnv = "ACCELMUX_TEST_PROGRAMS"
)

// ownMounts runs the test again in a process whose mounts are seen by nobody else and go
// with it, as root of a user namespace if this is not root. It reports true in that
// process: the test goes on only there. Where that is not to be had, the test is
// skipped.
func ownMounts(t *testing.T) bool {
	t.Helper()
	t.Parallel()
	if os.Getenv(mountsEnv) == t.Name() {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	command.Env = append(os.Environ(), mountsEnv+"="+t.Name(), programsEnv+"="+built.Dir(t))
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case err != nil && !errors.As(err, &exit):
		host.Lacks(t, "%s needs mounts of its own, which are not to be had here: %v", t.Name(), err)
	case err != nil:
		t.Errorf("with mounts of its own: %v\n%s", err, output)
	case strings.Contains(string(output), "--- SKIP: "+t.Name()):
		host.Lacks(t, "with mounts of its own:\n%s", output)
	}
	return false
}

// disk mounts a small file system at a directory of the node, of so many bytes (with k
// or m); it goes with the test. What was in the directory is hidden.
func (n *node) disk(size string, parts ...string) {
	n.Helper()
	dir := n.path(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	if err := unix.Mount("test", dir, "tmpfs", 0, "mode=0755,size="+size); err != nil {
		host.Lacks(n.T, "no small file system can be mounted here: %v", err)
	}
	n.Cleanup(func() {
		n.stopAgent()
		n.kubelet.Stop()
		n.unmount(parts...)
	})
}

// unmount does nothing where nothing is mounted.
func (n *node) unmount(parts ...string) {
	n.Helper()
	if err := unix.Unmount(n.path(parts...), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		n.Errorf("unmount: %v", err)
	}
}

// fill takes all the space of the file system that a directory of the node is on, until
// mended is called.
func (n *node) fill(parts ...string) (mended func()) {
	n.Helper()
	path := filepath.Join(n.path(parts...), "filler")
	file, err := os.Create(path)
	if err != nil {
		n.Fatal(err)
	}
	for chunk := make([]byte, 512); err == nil; {
		_, err = file.Write(chunk)
	}
	if err := errors.Join(ignore(err, unix.ENOSPC), file.Close()); err != nil {
		n.Fatal(err)
	}
	return func() {
		n.Helper()
		if err := os.Remove(path); err != nil {
			n.Fatal(err)
		}
	}
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
