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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
)

// process is one backend process and its process group. It is the runner that
// go-plugin starts; ending it is ours alone.
type process struct {
	cmd    *exec.Cmd
	dir    string        // of its socket, 0700
	living *atomic.Int32 // counts the unit's processes that are not reaped
	reaper *Reaper       // nil: none
	stdout *handshakePipe
	stderr *logPipe

	started chan struct{} // closed when it runs, or could not be started
	exited  chan struct{} // closed when it is reaped, or could not be started
	// released lets go-plugin go even if the process cannot be reaped.
	released    chan struct{}
	releaseOnce sync.Once

	mu      sync.Mutex // guards what follows, and that signals go to our group only
	pid     int        // 0 if not started
	reaped  bool
	doomed  bool // a stop came before the start was through
	failure error
	began   time.Time
	lasted  time.Duration
}

var _ runner.Runner = (*process)(nil)

// newProcess prepares the program with go-plugin's environment; dir is where it makes its
// socket. A pinned program is executed from its open file, which the process inherits as
// descriptor 3; a link in dir to that descriptor has the program's name. The interpreter of
// a script opens the file again by that link.
func newProcess(p *program, env []string, dir string, log *logPipe, b *backend) (*process, error) {
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	errs, errsChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), out.Close(), outChild.Close())
	}
	path, files := p.path, []*os.File(nil)
	if p.file != nil {
		path, files = filepath.Join(dir, filepath.Base(p.name)), []*os.File{p.file}
		if err := os.Symlink("/proc/self/fd/3", path); err != nil {
			return nil, errors.Join(fmt.Errorf("link the program: %w", err), out.Close(), outChild.Close(), errs.Close(), errsChild.Close())
		}
	}
	log.open(errs)
	return &process{
		cmd: &exec.Cmd{
			Path: path, Args: []string{p.name}, Env: env, Dir: "/",
			Stdout: outChild, Stderr: errsChild, ExtraFiles: files,
			SysProcAttr: &syscall.SysProcAttr{
				// A group of its own, so that one signal reaches all it started.
				Setpgid: true,
				// If we are killed, so is the backend.
				Pdeathsig: syscall.SIGKILL,
			},
		},
		dir:     dir,
		living:  &b.living,
		reaper:  b.sup.reaper,
		stdout:  newHandshakePipe(out),
		stderr:  log,
		started: make(chan struct{}), exited: make(chan struct{}), released: make(chan struct{}),
	}, nil
}

// Start starts the program. It gives up waiting with the context; what comes to
// life after that is killed at once.
func (p *process) Start(ctx context.Context) error {
	go p.live()
	select {
	case <-p.started:
		return p.failure
	case <-ctx.Done():
		p.mu.Lock()
		p.doomed = true
		p.mu.Unlock()
		return fmt.Errorf("the program could not be loaded in time: %w", context.Cause(ctx))
	}
}

// live starts the program and reaps it. The kernel sends a parent-death signal
// when the thread that forked ends, not the process; a Go thread may end at any
// time, so this one is locked until the child is gone.
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
	} else {
		p.pid = p.cmd.Process.Pid
		p.living.Add(1)
		preferVictim(p.pid)
		if p.doomed {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
	pid := p.pid
	p.mu.Unlock()
	close(p.started)
	if err != nil {
		return
	}
	awaitExit(pid)
	// While the leader is a zombie its number cannot be taken by anybody else, so
	// this reaches what is left of its group and nothing more.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	p.reaper.endLeft(p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait()
	p.reaper.waited(pid)
	p.reaped = true
	p.living.Add(-1)
	p.lasted = time.Since(p.began)
}

// awaitExit blocks until the process has ended, and leaves it to be reaped.
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
		return fmt.Errorf("%s is not a program for this machine (%s): install the right build: %w", path, runtime.GOARCH, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s cannot run because its interpreter or dynamic loader is missing on this host: %w", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// signal sends a signal to the whole group, as long as it can only be ours.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 && !p.reaped {
		_ = syscall.Kill(-p.pid, signal)
	}
	p.doomed = true
}

// stop ends the group: SIGTERM, SIGKILL after terminate. It reports whether the
// process is gone, at the latest kill after the SIGKILL. One that is stopped
// (SIGSTOP) dies of SIGKILL too; only one that hangs in the kernel does not.
func (p *process) stop(terminate, kill time.Duration) bool {
	p.signal(syscall.SIGTERM)
	if within(p.exited, terminate) {
		return true
	}
	p.signal(syscall.SIGKILL)
	return within(p.exited, kill)
}

// release closes what is still open of the pipes, after giving their last lines
// time to arrive: a descendant outside the group may hold them for ever.
func (p *process) release(wait time.Duration) {
	within(p.stderr.done, wait)
	p.stderr.close()
	p.stdout.close()
	p.releaseOnce.Do(func() { close(p.released) })
}

// ending says how the process ended, in words; "" if it has not.
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

// within waits for done, at most d.
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

// Stdout is the handshake line, and nothing after it.
func (p *process) Stdout() io.ReadCloser { return p.stdout }

// Stderr is empty for go-plugin: its parser trusts the lines (a JSON line whose
// @message is a number is a panic), so we read them ourselves.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the program's path in the backend directory.
func (p *process) Name() string { return p.cmd.Args[0] }

// ID is the process ID.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(p.pid)
}

// Diagnose adds nothing: our own errors say more.
func (p *process) Diagnose(context.Context) string { return "" }

// Wait returns when the process is gone, or was given up.
func (p *process) Wait(context.Context) error {
	select {
	case <-p.exited:
	case <-p.released:
	}
	return nil
}

// Kill does nothing: the instance ends its process, with its deadlines.
func (p *process) Kill(context.Context) error { return nil }

// PluginToHost takes only a unix socket in the private directory, so that a
// backend cannot make the core connect anywhere else.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != p.dir {
		return "", "", fmt.Errorf("it listens on %s %s, but must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR",
			printable(network, 16), printable(address, 128))
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

// checkEnv refuses what would not reach the program as it is written.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("the environment variable name %q is not one", name)
		case strings.ContainsRune(value, 0):
			return fmt.Errorf("the environment variable %s contains a zero byte", name)
		case strings.HasPrefix(name, "PLUGIN_"):
			return fmt.Errorf("the environment variable %s belongs to the handshake: choose a name that does not start with PLUGIN_", name)
		}
	}
	return nil
}
