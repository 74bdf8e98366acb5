package plug

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/accelmux/accelmux/core/procfs"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
)

// process is one backend process. It is the runner that go-plugin starts; only [Process.End] ends it.
type process struct {
	*group
	stdout *handshakePipe
	stderr *logPipe

	started chan struct{} // closed when it runs, or could not be started
	exited  chan struct{} // closed when it is reaped, or could not be started
	// appeared has what another process could open; one slot, for at most one message.
	appeared chan string
	// failure is why it does not run, report what was reported of its sandbox; set with started.
	failure error
	report  sandbox.Report
	// released ends go-plugin's Wait even if the process cannot be reaped.
	released    chan struct{}
	releaseOnce sync.Once
}

var _ runner.Runner = (*process)(nil)

// newProcess prepares the program with go-plugin's environment, in a sandbox with the directory of its socket.
func newProcess(p *Program, env []string, box sandbox.Sandbox, log *logPipe, reaper *Reaper) (*process, error) {
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	errs, errsChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), out.Close(), outChild.Close())
	}
	group, err := newGroup(p, env, box, reaper)
	if err != nil {
		return nil, errors.Join(err, out.Close(), outChild.Close(), errs.Close(), errsChild.Close())
	}
	group.cmd.Stdout, group.cmd.Stderr = outChild, errsChild
	log.open(errs)
	appeared := make(chan string, 1)
	group.tell = func(m sandbox.Message) { // perhaps from the backend's container, and so cleaned here
		if m.Unwatched != "" {
			log.log.Warn("the kernel does not report all files that appear and that the backend may open: they are searched for at an interval", "error", text.Printable(m.Unwatched, 512))
		}
		if m.Appeared != "" {
			select {
			case appeared <- text.Printable(m.Appeared, 1024):
			default: // of a launcher that repeats itself
			}
		}
	}
	return &process{
		group: group, appeared: appeared,
		stdout:  newHandshakePipe(out),
		stderr:  log,
		started: make(chan struct{}), exited: make(chan struct{}), released: make(chan struct{}),
	}, nil
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

// live runs the process until it is reaped.
func (p *process) live() {
	defer close(p.exited)
	p.run(func(report sandbox.Report, err error) {
		p.report, p.failure = report, err
		close(p.started)
	})
}

// stop ends the group: SIGTERM, and SIGKILL after terminate. It reports whether the process
// has ended, at the latest kill after the SIGKILL. A stopped process (SIGSTOP) ends, too;
// only one that hangs in the kernel does not.
func (p *process) stop(terminate, kill time.Duration) bool {
	p.signal(syscall.SIGTERM)
	if Within(p.exited, terminate) {
		return true
	}
	p.signal(syscall.SIGKILL)
	return Within(p.exited, kill)
}

// release closes the pipes, after waiting for their last lines: a descendant outside the
// group may keep them open.
func (p *process) release(wait time.Duration) {
	Within(p.stderr.done, wait)
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
	if ok && status.Signal() == syscall.SIGKILL && p.cgroup != "" && sandbox.OutOfMemory(p.cgroup) {
		return fmt.Sprintf("was killed for lack of memory after %s: sandbox.memory, or the memory of the agent's service, is too small for it", after)
	}
	if ok && status.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%s) after %s", int(status.Signal()), status.Signal(), after)
	}
	return fmt.Sprintf("exited with status %d after %s", p.cmd.ProcessState.ExitCode(), after)
}

// Times are how long the threads of a process have run, and waited for a processor.
type Times struct{ ran, waited time.Duration }

// Times returns those of the process since its start; zero if it does not run.
func (p *Process) Times() (t Times) {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	if p.run.pid != 0 && !p.run.reaped {
		t.ran, t.waited = procfs.Times(procfs.Dir(p.run.pid))
	}
	return t
}

// starved reports whether, within a deadline, the threads hardly ran but waited for a processor, which other processes had.
func (t Times) starved(since Times, deadline time.Duration) bool {
	return t.waited-since.waited > deadline/2 && t.ran-since.ran < deadline/2
}

// Within waits for done, at most d, and reports whether it was closed.
func Within(done <-chan struct{}, d time.Duration) bool {
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

// Kill does nothing: [Process.End] ends the process, with deadlines.
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
