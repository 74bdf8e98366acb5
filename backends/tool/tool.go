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
	// maxOutput is how much of what a tool says is kept, from the end; a message of the
	// contract has no more room.
	maxOutput = 700
	// killed is how long the tool's output is waited for after it has ended.
	killed = time.Second
)

// Tool is a program in a driver's root. It never changes.
type Tool struct {
	// Name is what it is called in errors: "nvidia-smi".
	Name string
	// Root is where this process sees the driver's root; "" is "/".
	Root string
	// Paths are where it may be, in the root; the first that is there is run.
	Paths []string
	// Setting is the field of the settings that says where it is, for errors.
	Setting string
}

// Call is how it is called.
type Call struct {
	Args []string
	// Files are what the tool has open from the start, as file descriptors 3, 4 and so
	// on, and so have the programs that it starts.
	Files []*os.File
}

// CheckPath says what is wrong with a path in settings; nil if nothing is, or it is
// empty.
func CheckPath(path string) error {
	if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
		return fmt.Errorf("%q must be an absolute path without . or .., in the driver's root", path)
	}
	return nil
}

// Find is the tool's path in the driver's root. The error is os.ErrNotExist if it is
// not there.
func (t Tool) Find() (string, error) {
	for _, path := range t.Paths {
		info, err := os.Stat(filepath.Join(t.root(), path))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in the driver's root %s (looked for %s): set %s: %w",
		t.Name, t.root(), strings.Join(t.Paths, ", "), t.Setting, os.ErrNotExist)
}

func (t Tool) root() string { return cmp.Or(t.Root, "/") }

// Run runs the tool at a path that Find found, and returns when it has ended. It says
// what was run and what the tool said: the end of it, on one line, in at most 700
// bytes. When ctx ends, the tool and all that it has started are killed; what is in a
// call of the kernel ends with it, so this may take longer than ctx. The error is a
// sentence for the operator.
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

// command is the tool's. It has a group of its own, since many a tool is a script that
// starts the tool proper, and is killed if this process ends.
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

// run starts a command and reaps it. The kernel sends a parent-death signal when the
// thread that forked ends, which may be at any time for a thread of Go's, so this one is
// kept until the command has ended.
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
		// Until it is reaped nobody else can have its number, so the signals reach its
		// group and nothing more.
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
		_ = syscall.Kill(-pid, syscall.SIGKILL) // what it has left behind
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

// tail keeps the end of what is written, on one line.
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
