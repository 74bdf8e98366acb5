package plug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/sandbox"
)

// group is a program in its sandbox, from its start to its end, and the process group of which it is the leader.
type group struct {
	cmd    *exec.Cmd
	name   string // the program's path in the backend directory
	start  *sandbox.Start
	cgroup string  // a directory; "" if it has none of its own
	dir    string  // of its socket
	reaper *Reaper // may be nil
	// tell gets what the sandbox reports while the program runs.
	tell func(sandbox.Message)

	// mu guards the fields below, and ensures that signals reach only this process group:
	// the ID of a reaped process may be in use again.
	mu     sync.Mutex
	pid    int // 0 if not started
	reaped bool
	doomed bool // a signal was sent: if it is not started yet, it is killed at its start
	began  time.Time
	lasted time.Duration // set with reaped
}

// newGroup prepares the program. The caller sets the files of its output before it calls run.
func newGroup(p *Program, env []string, box sandbox.Sandbox, reaper *Reaper) (*group, error) {
	cmd, start, err := prepare(p, env, box)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A process group, so that one signal reaches all that it started.
		Setpgid: true,
		// The kernel kills the backend when the agent is killed.
		Pdeathsig: syscall.SIGKILL,
	}
	return &group{cmd: cmd, name: p.Name, start: start, cgroup: box.Cgroup, dir: box.Dir, reaper: reaper}, nil
}

// prepare returns the command that starts the program in a sandbox. A pinned program is executed from its open file,
// which the process inherits as descriptor 3; a link in the directory of its socket to that descriptor has the
// program's name. The interpreter of a script opens the file again by that link.
func prepare(p *Program, env []string, box sandbox.Sandbox) (*exec.Cmd, *sandbox.Start, error) {
	cmd := &exec.Cmd{Path: p.Path, Args: []string{p.Name}, Env: env, Dir: "/"}
	if p.File != nil && box.Launcher == "" {
		cmd.Path, cmd.ExtraFiles = filepath.Join(box.Dir, filepath.Base(p.Name)), []*os.File{p.File}
		if err := os.Symlink("/proc/self/fd/3", cmd.Path); err != nil {
			return nil, nil, fmt.Errorf("link the program: %w", err)
		}
	}
	box.Programs = []string{filepath.Dir(p.Name), filepath.Dir(p.Path)}
	start, err := box.Prepare(cmd)
	return cmd, start, err
}

// run starts the program and closes the files of its output. It calls begun once, when the program runs or with why it
// does not, and returns when the process is reaped and all that it left running was killed. The kernel sends the
// parent-death signal when the thread that forked ends, not the process (PR_SET_PDEATHSIG(2const)); a Go thread may end
// at any time, so this one is locked until the child has ended.
func (g *group) run(begun func(sandbox.Report, error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.reaper.start(g.cmd, g.dir)
	for _, end := range []any{g.cmd.Stdout, g.cmd.Stderr} {
		if file, ok := end.(*os.File); ok {
			_ = file.Close() // the child has its own
		}
	}
	g.mu.Lock()
	g.began = time.Now()
	if err != nil {
		g.mu.Unlock()
		g.start.Close()
		begun(sandbox.Report{}, StartError(g.name, err))
		return
	}
	pid := g.cmd.Process.Pid
	g.pid = pid
	preferVictim(pid)
	if g.doomed {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	g.mu.Unlock()
	report, err := g.start.Wait()
	if err != nil {
		err = StartError(g.name, err)
	}
	begun(report, err)
	watching, end := context.WithCancel(context.Background())
	defer end()
	if err == nil {
		go g.start.Watch(watching, g.tell)
	}
	awaitExit(pid)
	// While the leader is a zombie, its ID cannot be reused, so this signal reaches only the
	// rest of its group.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	g.reaper.endLeft(g.dir)
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.cmd.Wait()
	g.reaper.waited(pid)
	g.reaped = true
	g.lasted = time.Since(g.began)
}

// awaitExit blocks until the process has ended, and does not reap it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// StartError explains the error of a program that could not be executed, and wraps it.
func StartError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is not a program for this machine (%s), nor a script that starts with #!: install the right build: %w", path, runtime.GOARCH, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s cannot run because its interpreter or dynamic loader is missing on this host: %w", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// signal sends a signal to the process group, unless its leader is reaped. If it is not started yet, it is killed as
// soon as it is.
func (g *group) signal(signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid != 0 && !g.reaped {
		_ = syscall.Kill(-g.pid, signal)
	}
	g.doomed = true
}
