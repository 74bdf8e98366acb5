package life

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Starts is the section of the agent's start.
var Starts = rig.Section{
	Name: "starts",
	About: "The agent with four backend processes (mock, 8 devices each) from its exec until each of the four resources is\n" +
		"registered, in turns with the smallest host of hashicorp/go-plugin from its exec until the first call of the smallest\n" +
		"plugin is answered. Both have mutual TLS with certificates made at the start, as backends are let in by that alone.",
	Measure: measureStarts,
}

const (
	// startLimit is how many times the floor a start may take.
	startLimit = 3
	// starts are the rounds.
	starts = 41
)

func measureStarts(s *rig.Setup) ([]rig.Figure, error) {
	floor, remove, err := buildFloor()
	if err != nil {
		return nil, err
	}
	defer remove()
	rounds := s.Samples(starts)
	times := map[string][]time.Duration{}
	for range rounds {
		took, inside, err := startFloor(floor)
		if err != nil {
			return nil, err
		}
		times["floor"], times["inside"] = append(times["floor"], took), append(times["inside"], inside)
		if took, _, err = startFloor(floor, "-plain"); err != nil {
			return nil, err
		}
		times["plain"] = append(times["plain"], took)
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
		{"start to every resource registered, 4 backends", "registered", startLimit},
		{"the same to all capacity at kubelet", "capable", 0},
		{"the same on the state that a run before has left", "again", 0},
		{"the same before kubelet: from its socket to registered", "late", 0},
	} {
		figures = append(figures, rig.Figure{
			What: line.what, Value: median(line.of), Unit: "ms", Times: line.times, Samples: rounds,
			Floor: median("floor"), FloorIs: "a go-plugin host, its plugin and the first call",
		})
	}
	return append(figures,
		rig.Figure{What: "a second agent that may not start, to its end", Value: median("second"), Unit: "ms", Samples: rounds},
		rig.Figure{What: "the floor from its host's start of the plugin on", Value: median("inside"), Unit: "ms", Samples: rounds},
		rig.Figure{What: "the floor without TLS", Value: median("plain"), Unit: "ms", Samples: rounds},
	), nil
}

// buildFloor builds the floor's program as the agent is built.
func buildFloor() (program string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "floor")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a temporary directory
	program = filepath.Join(dir, "floor")
	//nolint:noctx // it ends by itself
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", program,
		"github.com/accelmux/accelmux/test/bench/life/floor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the floor: %w\n%s", err, output)
	}
	return program, remove, nil
}

// startFloor says how long it took from the exec of the host, and what of it the host
// says that its plugin took.
func startFloor(program string, args ...string) (took, inside time.Duration, err error) {
	host := exec.Command(program, args...) //nolint:noctx // it ends with its input
	host.Stderr = os.Stderr
	hold, err := host.StdinPipe()
	if err != nil {
		return 0, 0, err
	}
	out, err := host.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := host.Start(); err != nil {
		return 0, 0, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	took = time.Since(began)
	if err := errors.Join(ignoreEOF(readErr), hold.Close(), host.Wait()); err != nil {
		return 0, 0, fmt.Errorf("the floor: %w", err)
	}
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return took, time.Duration(nanoseconds), err
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// startAgents starts an agent on an empty node, one on what that one left, beside it one
// that may not, and one before kubelet.
func startAgents(bin string, times map[string][]time.Duration) (err error) {
	n, err := newNode(bin, configuration("socket", plain))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	add := func(name string, took time.Duration) { times[name] = append(times[name], took) }
	for _, name := range []string{"registered", "again"} {
		n.forget()
		a, err := n.start(first)
		if err != nil {
			return err
		}
		at, err := n.all("registered", registered)
		full, capableErr := n.all("capable", capable)
		if name == "registered" {
			add("capable", full.Sub(a.began))
		} else {
			took, secondErr := n.startSecond()
			add("second", took)
			err = errors.Join(err, secondErr)
		}
		if err := errors.Join(err, capableErr, a.stop()); err != nil {
			return err
		}
		add(name, at.Sub(a.began))
	}
	took, err := n.startLate()
	add("late", took)
	return err
}

// startSecond starts an agent where one runs, and waits until it has given up.
func (n *node) startSecond() (time.Duration, error) {
	a, err := n.start(second)
	if err != nil {
		return 0, err
	}
	var exit *exec.ExitError
	if err := a.command.Wait(); !errors.As(err, &exit) {
		return 0, fmt.Errorf("a second agent ended with %w, want a failure", err)
	}
	return time.Since(a.began), nil
}

// startLate starts an agent, and kubelet when the backends run.
func (n *node) startLate() (took time.Duration, err error) {
	n.kubelet.Stop()
	a, err := n.start(first)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if err := a.await("backends that run", a.running); err != nil {
		return 0, err
	}
	n.forget()
	began := time.Now()
	if err := n.kubelet.Start(); err != nil {
		return 0, err
	}
	at, err := n.all("registered", registered)
	return at.Sub(began), err
}

// running reports whether every backend has reported its devices.
func (a *agent) running() bool {
	report, err := a.report()
	if err != nil {
		return false
	}
	count := 0
	for _, b := range report.Backends {
		if b.State == "running" && b.Devices == units {
			count++
		}
	}
	return count == len(backends)
}

// await asks now and then whether the condition holds.
func (a *agent) await(what string, condition func() bool) error {
	if holds, _ := rig.Poll(patience, 5*time.Millisecond, func() (bool, error) { return condition(), nil }); !holds {
		return fmt.Errorf("%s: not within %v", what, patience)
	}
	return nil
}
