package mps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/statefile"
)

const (
	// maxWords is how many bytes of a program's output are stored, from the end: the
	// contract allows little more for a problem.
	maxWords = 500
	// drainLimit is the limit of waiting for the rest of an ended program's output.
	drainLimit = 200 * time.Millisecond
)

// child is a running control daemon.
type child struct {
	place
	plan    *Plan
	path    string
	command *exec.Cmd
	words   *tail
	exited  chan struct{}
	err     error // why it ended; read it after exited
}

// launch starts the daemon in the foreground.
func launch(at place, p *Plan) (*child, error) {
	path, err := at.find()
	if err != nil {
		return nil, err
	}
	c := &child{place: at, plan: p, path: path, words: &tail{}, exited: make(chan struct{})}
	c.command = c.of(context.Background(), "-f")
	// One process group, so that one signal reaches the servers that it started. If this
	// process is killed, the kernel kills the daemon.
	c.command.SysProcAttr.Setpgid = true
	c.command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.command.Stdout, c.command.Stderr = c.words, c.words
	started := make(chan error, 1)
	go c.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", path, at.root, err)
	}
	return c, nil
}

// live starts the daemon and reaps it. The kernel sends a parent-death signal when the
// thread that forked ends; a Go thread may end at any time, so this one is locked until the
// daemon has ended. live also ends its servers: another daemon would not use them, and they
// would never free their memory.
func (c *child) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.exited)
	err := c.command.Start()
	started <- err
	if err != nil {
		return
	}
	pid := c.command.Process.Pid
	awaitExit(pid)
	// While the daemon is a zombie, its ID cannot be reused, so this signal reaches only the
	// rest of its group.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	c.err = c.command.Wait()
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

// of returns a command of the control program for the daemon of the plan.
func (c *child) of(ctx context.Context, args ...string) *exec.Cmd {
	command := c.run(ctx, c.path, args...)
	// By UUID, because a container counts its GPUs differently.
	command.Env = append(command.Env, "CUDA_VISIBLE_DEVICES="+strings.Join(c.plan.uuids(), ","))
	return command
}

// send sends the daemon a command and returns its answer.
func (c *child) send(ctx context.Context, limit time.Duration, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := c.of(ctx)
	answer := &tail{}
	command.Stdin = strings.NewReader(line + "\n")
	command.Stdout, command.Stderr = answer, answer
	err := command.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the MPS control daemon did not answer %q within %v", line, limit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("the MPS control daemon refused %q (%w): %s", line, err, answer)
	}
	return answer.String(), nil
}

// end ends the daemon and its servers: by a command, then by SIGKILL.
func (c *child) end(t Timing) {
	if !c.gone() {
		_, _ = c.send(context.Background(), t.Quit, "quit -t 1") // one that does not answer is killed
		select {
		case <-c.exited:
		case <-time.After(t.Quit):
		}
	}
	_ = c.command.Process.Kill() // its group follows; see live
	<-c.exited
}

func (c *child) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// died returns why the daemon ended, with its last output.
func (c *child) died() error {
	why := "exit status 0"
	if c.err != nil && !errors.Is(c.err, exec.ErrWaitDelay) {
		why = c.err.Error()
	}
	output := c.words.String()
	if output == "" {
		output = logged(filepath.Join(c.logDir(), "control.log"))
	}
	if output == "" {
		output = "none"
	}
	return fmt.Errorf("the MPS control daemon died (%s); its last output: %s", why, output)
}

// logged returns the end of a log.
func logged(path string) string {
	file, err := statefile.Open(path, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil {
		_, _ = file.Seek(max(0, info.Size()-maxWords), io.SeekStart)
		words := &tail{}
		_, _ = io.Copy(words, io.LimitReader(file, maxWords))
		return words.String()
	}
	return ""
}

// tail stores the end of what is written, as one line.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxWords; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}
