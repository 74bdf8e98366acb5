// Package starts is the section of the agent's start.
package starts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "starts",
	About: "The agent with four backend processes (mock, 8 devices each) from its exec until each of the four resources is\n" +
		"registered, in turns with the smallest host of hashicorp/go-plugin from its exec until the first call of the smallest\n" +
		"plugin is answered. Both have mutual TLS with certificates made at the start: only these admit a backend.",
	Measure: measure,
}

const (
	// limit is how many times the floor a start may take.
	limit = 2
	// rounds are the starts of each kind.
	rounds = 41
	// units are what each resource has.
	units = 8
)

// backends are four processes, each with a resource of its name.
var backends = []string{"one", "two", "three", "four"}

// configuration has the backends, and want their resources.
func configuration() (text string, want map[string]int) {
	var processes, resources strings.Builder
	want = map[string]int{}
	for _, name := range backends {
		resource := "example.com/" + name
		want[resource] = units
		fmt.Fprintf(&processes, "      - {name: %s, command: accelmux-backend-mock, settings: {count: %d}}\n", name, units)
		fmt.Fprintf(&resources, "      - {name: %s, backend: %s}\n", resource, name)
	}
	return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n  - name: bench\n    backends:\n" +
		processes.String() + "    resources:\n" + resources.String(), want
}

func measure(s *rig.Setup) (_ []rig.Figure, err error) {
	dir, err := os.MkdirTemp("", "floor")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	floor := filepath.Join(dir, "floor")
	if err := rig.Build(floor, "starts/floor"); err != nil {
		return nil, err
	}
	count := s.Samples(rounds)
	times := map[string][]time.Duration{}
	for range count {
		took, err := startFloor(floor)
		if err != nil {
			return nil, err
		}
		plain, err := startFloor(floor, "-plain")
		if err != nil {
			return nil, err
		}
		times["floor"], times["plain"] = append(times["floor"], took), append(times["plain"], plain)
		if err := startAgents(s.Bin, times); err != nil {
			return nil, err
		}
	}
	median := func(of string) float64 { return rig.Milliseconds(rig.Median(times[of])) }
	var figures []rig.Figure
	for _, line := range []struct {
		what, of string
		times    float64
	}{
		{"start to every resource registered, 4 backends", "registered", limit},
		{"the same to all capacity at kubelet", "capable", 0},
		{"the same on the state that a run before has left", "again", 0},
	} {
		figures = append(figures, rig.Figure{
			What: line.what, Value: median(line.of), Unit: "ms", Times: line.times, Samples: count,
			Floor: median("floor"), FloorIs: "a go-plugin host, its plugin and the first call",
		})
	}
	return append(figures, rig.Figure{What: "the floor without TLS", Value: median("plain"), Unit: "ms", Samples: count}), nil
}

// startFloor returns how long it took from the exec of the host to the first answer.
func startFloor(program string, args ...string) (took time.Duration, err error) {
	host := exec.Command(program, args...) //nolint:noctx // it ends with its input
	host.Stderr = os.Stderr
	hold, err := host.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := host.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := host.Start(); err != nil {
		return 0, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	took = time.Since(began)
	if err := errors.Join(hold.Close(), host.Wait()); err != nil {
		return 0, fmt.Errorf("the floor: %w", err)
	}
	if readErr != nil && !errors.Is(readErr, io.EOF) || line == "" {
		return 0, fmt.Errorf("the floor has not answered: %w", readErr)
	}
	return took, nil
}

// startAgents starts an agent on an empty node, and one on what that one left.
func startAgents(bin string, times map[string][]time.Duration) (err error) {
	text, want := configuration()
	seen := &arrivals{}
	seen.forget()
	n, err := rig.Start(rig.NodeOptions{Bin: bin, Config: text, Want: want, Kubelet: kubelettest.Options{OnEvent: seen.take}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	add := func(name string, at time.Time) { times[name] = append(times[name], at.Sub(n.Began)) }
	registered, capable := seen.last()
	add("registered", registered)
	add("capable", capable)
	seen.forget()
	if err := n.Restart(); err != nil {
		return err
	}
	registered, _ = seen.last()
	add("again", registered)
	return nil
}

// arrivals are when kubelet first registered each resource, and first had all of its units.
type arrivals struct {
	mu                  sync.Mutex
	registered, capable map[string]time.Time
}

func (a *arrivals) take(e kubelettest.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	note := func(first map[string]time.Time) {
		if _, had := first[e.Resource]; !had {
			first[e.Resource] = e.At
		}
	}
	switch {
	case e.Type == kubelettest.EventRegistered:
		note(a.registered)
	case e.Type == kubelettest.EventDevices && e.Allocatable == units:
		note(a.capable)
	}
}

// forget drops all arrivals so far.
func (a *arrivals) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registered, a.capable = map[string]time.Time{}, map[string]time.Time{}
}

// last are the arrivals of the last resource.
func (a *arrivals) last() (registered, capable time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, at := range a.registered {
		if at.After(registered) {
			registered = at
		}
		if at := a.capable[name]; at.After(capable) {
			capable = at
		}
	}
	return registered, capable
}
