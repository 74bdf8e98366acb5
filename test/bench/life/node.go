package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

const (
	// patience bounds every wait.
	patience = 30 * time.Second
	// units are what each resource has.
	units = 8
	// first and second are the run directories of two agents.
	first, second = "run", "second"
)

// backends are four processes, each with a resource of its name.
var backends = []string{"one", "two", "three", "four"}

func resource(backend string) string { return "example.com/" + backend }

// configuration has the backends, changed by what is given as their settings.
func configuration(registration string, settings func(backend string) string) string {
	var b strings.Builder
	b.WriteString("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n  - name: default\n    backends:\n")
	for _, name := range backends {
		fmt.Fprintf(&b, "      - {name: %s, command: accelmux-backend-mock, %s}\n", name, settings(name))
	}
	b.WriteString("    resources:\n")
	for _, name := range backends {
		fmt.Fprintf(&b, "      - {name: %s, backend: %s, registration: %s}\n", resource(name), name, registration)
	}
	return b.String()
}

// plain are the settings of a backend that nothing is special about.
func plain(string) string { return fmt.Sprintf("settings: {count: %d}", units) }

// node is a stand-in kubelet, and agents as processes.
type node struct {
	bin, dir string
	kubelet  *kubelettest.Kubelet

	mu     sync.Mutex
	events []kubelettest.Event
	told   chan struct{} // closed and replaced at every event
}

// newNode makes one with a configuration and a kubelet that runs.
func newNode(bin, config string) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		return nil, err
	}
	n := &node{bin: bin, dir: dir, told: make(chan struct{})}
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: n.take})
	if err := errors.Join(n.configure(config), n.kubelet.Start()); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) path(names ...string) string {
	return filepath.Join(append([]string{n.dir}, names...)...)
}

// configure replaces the configuration as an editor does.
func (n *node) configure(text string) error {
	before := n.path(".node.yaml")
	return errors.Join(os.WriteFile(before, []byte(text), 0o600), os.Rename(before, n.path("node.yaml")))
}

func (n *node) close() error {
	n.kubelet.Stop()
	return os.RemoveAll(n.dir)
}

func (n *node) take(e kubelettest.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
	close(n.told)
	n.told = make(chan struct{})
}

// forget drops the events so far.
func (n *node) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = n.events[:0]
}

// all waits until every resource had an event that matches, and says when the last of
// them had its first.
func (n *node) all(what string, matches func(kubelettest.Event) bool) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		n.mu.Lock()
		at, told := n.latest(matches), n.told
		n.mu.Unlock()
		if !at.IsZero() {
			return at, nil
		}
		select {
		case <-told:
		case <-limit.C:
			return time.Time{}, fmt.Errorf("not every resource is %s within %v: %+v", what, patience, n.kubelet.State().Resources)
		}
	}
}

// latest is the zero time if a resource had no such event.
func (n *node) latest(matches func(kubelettest.Event) bool) time.Time {
	first := map[string]time.Time{}
	for _, e := range n.events {
		if _, had := first[e.Resource]; !had && matches(e) {
			first[e.Resource] = e.At
		}
	}
	var last time.Time
	for _, name := range backends {
		at, had := first[resource(name)]
		if !had {
			return time.Time{}
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

func registered(e kubelettest.Event) bool { return e.Type == kubelettest.EventRegistered }

func capable(e kubelettest.Event) bool {
	return e.Type == kubelettest.EventDevices && e.Allocatable == units
}

// agent is one as a process.
type agent struct {
	command *exec.Cmd
	began   time.Time
	status  *status.Client
}

// start starts an agent; run is the name of its run directory. Only the first one's
// errors are shown.
func (n *node) start(run string, more ...string) (*agent, error) {
	args := []string{"run", "--config", n.path("node.yaml"), "--kubelet-dir", n.path("kubelet"), "--cdi-dir", n.path("cdi"),
		"--state-dir", n.path("state"), "--run-dir", n.path(run), "--backend-dir", n.bin, "--log-level", "error"}
	//nolint:noctx // it is ended by stop, with a signal
	command := exec.Command(filepath.Join(n.bin, "accelmux"), append(args, more...)...)
	if run == first {
		command.Stderr = os.Stderr
	}
	began := time.Now()
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &agent{command, began, status.NewClient(n.path(run))}, nil
}

// stop ends the agent as a node does.
func (a *agent) stop() error {
	if a == nil {
		return nil
	}
	if err := a.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := a.command.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func (a *agent) report() (status.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.status.Report(ctx)
}
