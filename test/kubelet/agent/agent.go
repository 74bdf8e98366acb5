// Package agent starts the accelmux program as a process, as an operator would.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// StopLimit is how long the agent may take to end after SIGTERM, on a machine that may
// stand still for a while; its own limits, of less than 5 s in all, are in core/agent.
const StopLimit = time.Minute

// Agent is one agent on one node: it can be stopped and started again, as a
// service manager does. Its methods are not for concurrent use, but for Log and
// those that ask over the admin socket.
type Agent struct {
	// Args are more arguments of accelmux run.
	Args []string

	bin  string
	root string
	run  string // the run directory's name
	// takeOver is whether it has --take-over.
	takeOver bool
	log      log
	cmd      *exec.Cmd
	done     chan struct{}
	exit     error
}

// New prepares an agent whose directories are all below root, an existing
// directory with a short name. bin holds the programs.
func New(bin, root string) (*Agent, error) {
	a := &Agent{bin: bin, root: root, run: "r"}
	for _, dir := range []string{a.KubeletDir(), a.CDIDir(), a.StateDir(), a.RunDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Beside prepares another agent on the same node with the same arguments, which waits on standby while one is active.
func (a *Agent) Beside(name string) (*Agent, error) {
	b := &Agent{Args: slices.Clone(a.Args), bin: a.bin, root: a.root, run: name, takeOver: true}
	return b, os.MkdirAll(b.RunDir(), 0o700)
}

// KubeletDir is kubelet's root, short for its sockets' sake.
func (a *Agent) KubeletDir() string { return filepath.Join(a.root, "k") }

// CDIDir is where the agent writes CDI specs.
func (a *Agent) CDIDir() string { return filepath.Join(a.root, "cdi") }

// RunDir has the sockets of the running agent.
func (a *Agent) RunDir() string { return filepath.Join(a.root, a.run) }

// StateDir is the agent's own.
func (a *Agent) StateDir() string { return filepath.Join(a.root, "s") }

// ConfigFile is the node configuration.
func (a *Agent) ConfigFile() string { return filepath.Join(a.root, "node.yaml") }

// Status asks the running agent.
func (a *Agent) Status(ctx context.Context) (status.Report, error) {
	return status.NewClient(a.RunDir()).Report(ctx)
}

// Devices asks the running agent for its devices, by ID.
func (a *Agent) Devices(ctx context.Context) (map[string]listing.Device, error) {
	list, err := status.NewClient(a.RunDir()).Devices(ctx)
	devices := map[string]listing.Device{}
	for _, d := range list {
		devices[d.ID] = d
	}
	return devices, err
}

// Start starts the process. It does not wait for anything.
func (a *Agent) Start() error {
	if a.Running() {
		return errors.New("the agent is running already")
	}
	args := []string{"run",
		"--config", a.ConfigFile(),
		"--kubelet-dir", a.KubeletDir(),
		"--cdi-dir", a.CDIDir(),
		"--state-dir", a.StateDir(), "--run-dir", a.RunDir(),
		"--backend-dir", a.bin,
		"--node-name", "node-1",
		"--profile", ProfileName,
		"--log-level", "debug",
	}
	args = append(args, a.Args...)
	if a.takeOver {
		args = append(args, "--take-over")
	}
	// No context: the process ends with Stop or Kill, or with the test's own.
	cmd := exec.CommandContext(context.Background(), filepath.Join(a.bin, "accelmux"), args...)
	cmd.Stdout, cmd.Stderr = &a.log, &a.log
	// A backend that outlives the agent may keep its output open.
	cmd.WaitDelay = StopLimit
	// A group of its own: a signal to the test's group must not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(&a.log, "--- start at %s\n", time.Now().Format(time.StampMilli))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start accelmux: %w", err)
	}
	done := make(chan struct{})
	a.cmd, a.done = cmd, done
	go func() { // ends with the process
		a.exit = cmd.Wait()
		close(done)
	}()
	return nil
}

// Running reports whether the process is there.
func (a *Agent) Running() bool {
	if a.cmd == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// notRunning is why there is nothing to stop.
func (a *Agent) notRunning() error {
	if a.cmd == nil {
		return errors.New("the agent was never started")
	}
	return fmt.Errorf("the agent has ended without being asked to: %w", a.exit)
}

// Stop sends SIGTERM and returns how long the agent took to end. It is an error
// if it is not there any more, exits with anything but 0, or is not gone after
// StopLimit; then it is killed.
func (a *Agent) Stop() (time.Duration, error) {
	if !a.Running() {
		return 0, a.notRunning()
	}
	start := time.Now()
	fmt.Fprintf(&a.log, "--- SIGTERM at %s\n", start.Format(time.StampMilli))
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("signal the agent: %w", err)
	}
	select {
	case <-a.done:
	case <-time.After(StopLimit):
		_ = a.cmd.Process.Kill() // it may end just now
		<-a.done
		return time.Since(start), fmt.Errorf("the agent was still there %v after SIGTERM", StopLimit)
	}
	if a.exit != nil {
		return time.Since(start), fmt.Errorf("the agent's exit after SIGTERM: %w", a.exit)
	}
	return time.Since(start), nil
}

// Kill sends SIGKILL and waits for the process to be gone.
func (a *Agent) Kill() error {
	if !a.Running() {
		return a.notRunning()
	}
	fmt.Fprintf(&a.log, "--- SIGKILL at %s\n", time.Now().Format(time.StampMilli))
	if err := a.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the agent: %w", err)
	}
	<-a.done
	return nil
}

// Log is everything that the agent printed so far, over all its starts.
func (a *Agent) Log() string { return a.log.String() }

// Printed is closed once the agent prints these words on one line, from now on, in this
// order. At most one such wait is noticed at a time: the newest.
func (a *Agent) Printed(words ...string) <-chan struct{} {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	a.log.words, a.log.from, a.log.printed = words, a.log.buf.Len(), make(chan struct{})
	return a.log.printed
}

// log is a buffer that the process's copying goroutine and the test share.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
	// words are waited for, after so many bytes; printed is nil if none are.
	words   []string
	from    int
	printed chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.buf.Write(p)
	if l.printed == nil {
		return n, err
	}
	for line := range bytes.Lines(l.buf.Bytes()[l.from:]) {
		if hasAll(string(line), l.words) {
			close(l.printed)
			l.printed = nil
			break
		}
	}
	return n, err
}

// hasAll reports whether the words are in the text, in this order.
func hasAll(text string, words []string) bool {
	for _, word := range words {
		_, rest, found := strings.Cut(text, word)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
