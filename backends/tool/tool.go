package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxOutput is how many bytes of a tool's output are returned, from the end; a message of
	// the contract cannot have more.
	maxOutput = 700
	// killed is how long Run waits for the rest of the output after the tool has ended.
	killed = time.Second
)

// Tool is a program in a driver's root. It is never changed.
type Tool struct {
	// Name is the tool's name in errors: "nvidia-smi".
	Name string
	// Root is the path of the driver's root for this process; "" is "/".
	Root string
	// Paths are where it may be, in the root; the first that exists is run.
	Paths []string
	// Setting is the field of the settings with the tool's path, for errors.
	Setting string
}

// Call has the arguments of one run.
type Call struct {
	Args []string
	// Files are open in the tool from the start as file descriptors 3, 4 and so on, also in the
	// programs that it starts.
	Files []*os.File
}

// CheckPath returns an error for an invalid path in settings; nil if it is valid or empty.
func CheckPath(path string) error {
	if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
		return fmt.Errorf("%q must be an absolute path without . or .., in the driver's root", path)
	}
	return nil
}

// Find returns the tool's path in the driver's root. The error is os.ErrNotExist if it does not
// exist.
func (t Tool) Find() (string, error) {
	for _, path := range t.Paths {
		info, err := os.Stat(filepath.Join(t.root(), path))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in the driver's root %s (no executable file %s): set %s: %w",
		t.Name, t.root(), strings.Join(t.Paths, ", "), t.Setting, os.ErrNotExist)
}

func (t Tool) root() string { return cmp.Or(t.Root, "/") }

// Run runs the tool at a path from Find until it ends, and returns what was run and the end of
// the tool's output, on one line of at most 700 bytes. When ctx ends, the tool and all that it
// has started are killed. A process in a system call ends only after that, so Run may take
// longer than ctx. Errors are shown to operators as they are.
func (t Tool) Run(ctx context.Context, path string, call Call) (said string, err error) {
	command := t.command(path, call)
	words := &tail{}
	command.Stdout, command.Stderr = words, words
	what := strings.Join(append([]string{t.Name}, call.Args...), " ")
	err = run(ctx, command)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Sprintf("%s: %s", what, words), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not end in time and was killed: %w; it said: %s", what, ctx.Err(), words)
	case errors.As(err, &exit):
		return "", fmt.Errorf("%s failed (%w): %s", what, err, words)
	}
	return "", fmt.Errorf("%s could not be run in %s: %w", what, t.root(), err)
}

// command returns the tool's command. It has a process group of its own, since many a tool is a
// script that starts the actual tool, and is killed if this process ends.
func (t Tool) command(path string, call Call) *exec.Cmd {
	command := exec.Command(path, call.Args...) //nolint:gosec,noctx // run watches ctx, and ends the whole group
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	command.ExtraFiles = call.Files
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if root := t.root(); root != "/" {
		command.SysProcAttr.Chroot = root
	}
	command.WaitDelay = killed
	return command
}

// run starts a command and reaps it. The kernel sends a parent-death signal when the thread that
// forked ends, which may happen at any time to a thread of Go's, so run locks this one until the
// command has ended.
func run(ctx context.Context, command *exec.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := command.Start(); err != nil {
			result <- err
			return
		}
		pid := command.Process.Pid
		// Until it is reaped no other process can have its PID, so the signals reach only its
		// group.
		ended := make(chan struct{})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			select {
			case <-ctx.Done():
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			case <-ended:
			}
		}()
		awaitExit(pid)
		close(ended)
		<-watched
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its remaining children
		result <- command.Wait()
	}()
	return <-result
}

// awaitExit waits until a child has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// tail stores the end of what is written, on one line.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxOutput; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	if text := strings.Join(strings.Fields(string(t.text)), " "); text != "" {
		return text
	}
	return "(nothing)"
}
