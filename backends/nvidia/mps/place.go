package mps

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// place is where the daemon runs: the root of the driver's installation, and paths in it.
type place struct {
	root, dir string
	program   string // "" to search it
}

func (p *place) pipeDir() string { return filepath.Join(p.root, p.dir, "pipe") }
func (p *place) logDir() string  { return filepath.Join(p.root, p.dir, "log") }
func (p *place) socket() string  { return filepath.Join(p.root, p.dir, "socket") }

// run returns a command with the driver's root as its root directory, where it finds
// its libraries and nvidia-cuda-mps-server.
func (p *place) run(ctx context.Context, path string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, path, args...)
	command.Dir, command.SysProcAttr, command.WaitDelay = "/", &syscall.SysProcAttr{}, drainLimit
	command.Env = []string{
		"PATH=/usr/local/nvidia/bin:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C",
		"CUDA_MPS_PIPE_DIRECTORY=" + filepath.Join(p.dir, "pipe"),
		"CUDA_MPS_LOG_DIRECTORY=" + filepath.Join(p.dir, "log"),
	}
	if p.root != "/" {
		command.SysProcAttr.Chroot = p.root
	}
	return command
}

// searched are the paths of the program in distributions and driver containers.
var searched = []string{
	"/usr/bin/nvidia-cuda-mps-control", "/usr/local/nvidia/bin/nvidia-cuda-mps-control",
	"/opt/bin/nvidia-cuda-mps-control", "/bin/nvidia-cuda-mps-control",
}

// find returns the program's path in the root.
func (p *place) find() (string, error) {
	paths := searched
	if p.program != "" {
		paths = []string{p.program}
	}
	for _, path := range paths {
		info, err := os.Stat(filepath.Join(p.root, path))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("nvidia-cuda-mps-control is not in the driver's root %s (searched: %s): install it there, or give its path with --program",
		p.root, strings.Join(paths, ", "))
}

// prepare makes the directories. Processes of all users must traverse them. An existing
// directory "shm", for a separate /dev/shm of MPS, gets the mode and the label for that.
func (p *place) prepare() error {
	for _, dir := range []string{p.pipeDir(), p.logDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a directory for the MPS control daemon: %w", err)
		}
	}
	if err := labelForContainers(p.pipeDir()); err != nil {
		return err
	}
	shm := filepath.Join(p.root, p.dir, "shm")
	if info, err := os.Lstat(shm); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // the node's own /dev/shm is used
	}
	if err := os.Chmod(shm, 0o777|os.ModeSticky); err != nil {
		return fmt.Errorf("prepare the shared memory of the MPS control daemon: %w", err)
	}
	return labelForContainers(shm)
}

// labelForContainers gives a directory the SELinux type container_file_t, as NVIDIA's device
// plugin does: without it, containers may not use the files in it. Without SELinux it does
// nothing.
func labelForContainers(dir string) error {
	const attribute = "security.selinux"
	label := make([]byte, 256)
	n, err := unix.Lgetxattr(dir, attribute, label)
	if err != nil {
		return nil //nolint:nilerr // no label: SELinux is not enabled
	}
	changed, ok := containerLabel(string(label[:n]))
	if !ok {
		return nil
	}
	if err := unix.Lsetxattr(dir, attribute, []byte(changed), 0); err != nil {
		return fmt.Errorf("change the SELinux label of %s to %s: %w", dir, changed, err)
	}
	return nil
}

// containerLabel replaces the type in a label "user:role:type:level", and reports whether
// that changes it.
func containerLabel(label string) (string, bool) {
	fields := strings.SplitN(strings.TrimRight(label, "\x00"), ":", 4)
	if len(fields) < 3 || fields[2] == "container_file_t" {
		return "", false
	}
	fields[2] = "container_file_t"
	return strings.Join(fields, ":"), true
}
