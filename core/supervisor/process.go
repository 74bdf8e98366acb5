package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
)

// process is one backend process, in its sandbox, and its process group. It is the runner that go-plugin
// starts; only the instance ends it.
type process struct {
	cmd    *exec.Cmd
	name   string // the program's path in the backend directory
	start  *sandbox.Start
	dir    string  // of its socket, 0700
	reaper *Reaper // may be nil
	stdout *handshakePipe
	stderr *logPipe

	started chan struct{} // closed when it runs, or could not be started
	exited  chan struct{} // closed when it is reaped, or could not be started
	// released ends go-plugin's Wait even if the process cannot be reaped.
	released    chan struct{}
	releaseOnce sync.Once

	// mu guards the fields below, and ensures that signals reach only this process group:
	// the ID of a reaped process may be in use again.
	mu      sync.Mutex
	pid     int // 0 if not started
	reaped  bool
	doomed  bool // it was stopped before the start had returned
	failure error
	report  sandbox.Report // set with started
	began   time.Time
	lasted  time.Duration
}

var _ runner.Runner = (*process)(nil)

// newProcess prepares the program with go-plugin's environment, in a sandbox with the directory of its socket.
func newProcess(p *program, env []string, box sandbox.Sandbox, log *logPipe, reaper *Reaper) (*process, error) {
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	errs, errsChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), out.Close(), outChild.Close())
	}
	cmd, start, err := p.prepare(env, box)
	if err != nil {
		return nil, errors.Join(err, out.Close(), outChild.Close(), errs.Close(), errsChild.Close())
	}
	cmd.Stdout, cmd.Stderr = outChild, errsChild
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A process group, so that one signal reaches all that it started.
		Setpgid: true,
		// The kernel kills the backend when the agent is killed.
		Pdeathsig: syscall.SIGKILL,
	}
	log.open(errs)
	return &process{
		cmd: cmd, name: p.name, start: start,
		dir:     box.Dir,
		reaper:  reaper,
		stdout:  newHandshakePipe(out),
		stderr:  log,
		started: make(chan struct{}), exited: make(chan struct{}), released: make(chan struct{}),
	}, nil
}

// prepare returns the command that starts the program in a sandbox. A pinned program is executed from its open file,
// which the process inherits as descriptor 3; a link in the directory of its socket to that descriptor has the
// program's name. The interpreter of a script opens the file again by that link.
func (p *program) prepare(env []string, box sandbox.Sandbox) (*exec.Cmd, *sandbox.Start, error) {
	cmd := &exec.Cmd{Path: p.path, Args: []string{p.name}, Env: env, Dir: "/"}
	if p.file != nil && box.Launcher == "" {
		cmd.Path, cmd.ExtraFiles = filepath.Join(box.Dir, filepath.Base(p.name)), []*os.File{p.file}
		if err := os.Symlink("/proc/self/fd/3", cmd.Path); err != nil {
			return nil, nil, fmt.Errorf("link the program: %w", err)
		}
	}
	box.Programs = []string{filepath.Dir(p.name), filepath.Dir(p.path)}
	start, err := box.Prepare(cmd)
	return cmd, start, err
}

// Start starts the program. If ctx ends first, it returns, and the process is killed as
// soon as it has started.
func (p *process) Start(ctx context.Context) error {
	go p.live()
	select {
	case <-p.started:
		return p.failure
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		return fmt.Errorf("the program could not be loaded in time: %w", context.Cause(ctx))
	}
}

// live starts the program and reaps it. The kernel sends the parent-death signal when the
// thread that forked ends, not the process (PR_SET_PDEATHSIG(2const)); a Go thread may end
// at any time, so this one is locked until the child has ended.
func (p *process) live() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.reaper.start(p.cmd, p.dir)
	for _, end := range []any{p.cmd.Stdout, p.cmd.Stderr} {
		if file, ok := end.(*os.File); ok {
			_ = file.Close() // the child has its own
		}
	}
	p.mu.Lock()
	p.began = time.Now()
	if err != nil {
		p.failure = StartError(p.Name(), err)
		p.mu.Unlock()
		p.start.Close()
		close(p.started)
		return
	}
	p.pid = p.cmd.Process.Pid
	preferVictim(p.pid)
	if p.doomed {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	pid := p.pid
	p.mu.Unlock()
	if p.report, err = p.start.Wait(); err != nil {
		p.failure = StartError(p.Name(), err)
	}
	close(p.started)
	awaitExit(pid)
	// While the leader is a zombie, its ID cannot be reused, so this signal reaches only the
	// rest of its group.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	p.reaper.endLeft(p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait()
	p.reaper.waited(pid)
	p.reaped = true
	p.lasted = time.Since(p.began)
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

// StartError explains why a program could not be executed.
func StartError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is not a program for this machine (%s), nor a script that starts with #!: install the right build: %w", path, runtime.GOARCH, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s cannot run because its interpreter or dynamic loader is missing on this host: %w", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// signal sends a signal to the process group, unless its leader is reaped.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 && !p.reaped {
		_ = syscall.Kill(-p.pid, signal)
	}
	p.doomed = true
}

// stop ends the group: SIGTERM, and SIGKILL after terminate. It reports whether the process
// has ended, at the latest kill after the SIGKILL. A stopped process (SIGSTOP) ends, too;
// only one that hangs in the kernel does not.
func (p *process) stop(terminate, kill time.Duration) bool {
	p.signal(syscall.SIGTERM)
	if within(p.exited, terminate) {
		return true
	}
	p.signal(syscall.SIGKILL)
	return within(p.exited, kill)
}

// release closes the pipes, after waiting for their last lines: a descendant outside the
// group may keep them open.
func (p *process) release(wait time.Duration) {
	within(p.stderr.done, wait)
	p.stderr.close()
	p.stdout.close()
	p.releaseOnce.Do(func() { close(p.released) })
}

// ending describes how the process ended; "" if it has not.
func (p *process) ending() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped || p.cmd.ProcessState == nil {
		return ""
	}
	after := p.lasted.Round(time.Millisecond)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%s) after %s", int(status.Signal()), status.Signal(), after)
	}
	return fmt.Sprintf("exited with status %d after %s", p.cmd.ProcessState.ExitCode(), after)
}

// within waits for done, at most d, and reports whether it was closed.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// Stdout returns the handshake line and nothing after it.
func (p *process) Stdout() io.ReadCloser { return p.stdout }

// Stderr is empty for go-plugin, whose parser panics on a JSON line with a number as
// @message; logPipe reads the lines instead.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the program's path in the backend directory.
func (p *process) Name() string { return p.name }

// ID is the process ID.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(p.pid)
}

// Diagnose returns nothing: startFailure explains failures.
func (p *process) Diagnose(context.Context) string { return "" }

// Wait returns when the process has ended, or was released.
func (p *process) Wait(context.Context) error {
	select {
	case <-p.exited:
	case <-p.released:
	}
	return nil
}

// Kill does nothing: the instance ends its process, with deadlines.
func (p *process) Kill(context.Context) error { return nil }

// PluginToHost accepts only a unix socket in the private directory, so that a backend
// cannot make the core connect elsewhere.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != p.dir {
		return "", "", fmt.Errorf("it listens on %s %s, but must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR",
			text.Printable(network, 16), text.Printable(address, 128))
	}
	return network, address, nil
}

// HostToPlugin changes nothing: both sides see the same files.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// Environment returns the variables that every backend gets, beside those of the handshake,
// and those that its configuration adds.
func Environment(extra map[string]string) []string {
	var env []string
	for name, fallback := range map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8", "TZ": "",
	} {
		value, ok := os.LookupEnv(name)
		if !ok {
			value = fallback
		}
		if _, given := extra[name]; !given && value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}
