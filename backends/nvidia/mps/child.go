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
)

const (
	// maxWords is how much of what a program says is kept, from the end; a message
	// of the contract has little more room.
	maxWords = 500
	// drainLimit is how long output is waited for after its program has ended.
	drainLimit = 200 * time.Millisecond
)

// child is a control daemon that runs.
type child struct {
	plan    *Plan
	path    string
	command *exec.Cmd
	words   *tail
	exited  chan struct{}
	err     error // why it ended; to be read after exited
}

// launch starts the daemon in the foreground.
func launch(p *Plan) (*child, error) {
	path, err := p.find()
	if err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	c := &child{plan: p, path: path, words: &tail{}, exited: make(chan struct{})}
	c.command = p.command(context.Background(), path, "-f")
	// A group of its own, so that one signal reaches the servers that it started;
	// and if this process is killed, so is the daemon.
	c.command.SysProcAttr.Setpgid = true
	c.command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.command.Stdout, c.command.Stderr = c.words, c.words
	started := make(chan error, 1)
	go c.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", path, p.root, err)
	}
	return c, nil
}

// live starts the daemon and reaps it. The kernel sends a parent-death signal when
// the thread that forked ends; a Go thread may end at any time, so this one is
// locked until the daemon is gone. Servers end with their daemon: another one
// would not know of them, and they would keep their memory for ever.
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
	// While the daemon is a zombie its number cannot be taken by anybody else, so
	// this reaches what is left of its group and nothing more.
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

// command is the program with the driver's root as its own, where it finds its
// libraries and nvidia-cuda-mps-server.
func (p *Plan) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, path, args...)
	command.Dir, command.Env = "/", p.environment()
	command.SysProcAttr = &syscall.SysProcAttr{}
	if p.root != "/" {
		command.SysProcAttr.Chroot = p.root
	}
	command.WaitDelay = drainLimit
	return command
}

// ask gives the daemon a command and returns its answer.
func (c *child) ask(ctx context.Context, limit time.Duration, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := c.plan.command(ctx, c.path)
	answer := &tail{}
	command.Stdin = strings.NewReader(line + "\n")
	command.Stdout, command.Stderr = answer, answer
	err := command.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the MPS control daemon did not answer to %q within %v", line, limit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("the MPS control daemon did not take %q (%w): %s", line, err, answer)
	}
	return answer.String(), nil
}

// end ends the daemon and its servers: it is asked to, then killed.
func (c *child) end(t Timing) {
	if !c.gone() {
		_, _ = c.ask(context.Background(), t.Quit, "quit -t 1") // one that does not hear is killed
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

// died is why the daemon ended, with its own words.
func (c *child) died() error {
	why := "it ended by itself"
	if c.err != nil && !errors.Is(c.err, exec.ErrWaitDelay) {
		why = c.err.Error()
	}
	said := c.words.String()
	if said == "" {
		said = logged(filepath.Join(c.plan.root, c.plan.logDir, "control.log"))
	}
	if said == "" {
		said = "nothing"
	}
	return fmt.Errorf("the MPS control daemon died (%s); it said: %s", why, said)
}

// logged is the end of a log.
func logged(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		_, _ = file.Seek(max(0, info.Size()-maxWords), io.SeekStart)
		words := &tail{}
		_, _ = io.Copy(words, io.LimitReader(file, maxWords))
		return words.String()
	}
	return ""
}

// tail keeps the end of what is written, as one line.
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
