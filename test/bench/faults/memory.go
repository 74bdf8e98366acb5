package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/hostile"
)

// Memory is the section of what a backend can make the core take without breaking a bound.
var Memory = rig.Section{
	Name: "memory",
	About: "The core's peak memory (VmHWM) while a backend of 4,096 devices, or each of four such backends, reports other values\n" +
		"three times a second for 20 s, as much as the contract allows (20 MiB by the core's estimate), and /metrics, `accelmux\n" +
		"status` and the liveness probe are requested every second. GOMEMLIMIT is 384 MiB, as the agent sets it in a container\n" +
		"of 512 MiB, which is the limit.",
	Measure: peaks,
}

const (
	memoryLimit   = "GOMEMLIMIT=384MiB"
	containerSize = 537 // MB: the chart's limit for the agent's container
	memoryFor     = 20 * time.Second
	// together is how many backends do the same at once in the section's second half.
	together = 4
)

func peaks(s *rig.Setup) (figures []rig.Figure, err error) {
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := install(s.Bin, dir); err != nil {
		return nil, err
	}
	for _, backends := range []int{1, together} {
		for _, misdeed := range hostile.Bounds() {
			figure, err := peak(s, dir, misdeed, backends)
			if err != nil {
				return nil, fmt.Errorf("%d backends, each of which %s: %w", backends, misdeed.What, err)
			}
			figures = append(figures, figure)
		}
	}
	return figures, nil
}

// crowd is the configuration of a node with a sound backend and some that do the same misdeed.
func crowd(misdeed, file string, backends int) (text string, want map[string]int) {
	var processes, resources strings.Builder
	want = map[string]int{resource: devices}
	for i := range backends {
		fmt.Fprintf(&processes, "      - {name: bad%d, command: hostilebackend, recovery: {delay: 0s}, telemetry: {interval: 1s}, env: {HOSTILE_MISDEED: %q, HOSTILE_WHILE: %q}}\n", i, misdeed, file)
		fmt.Fprintf(&resources, "      - {name: %s%d, backend: bad%d}\n", bad, i, i)
		want[fmt.Sprint(bad, i)] = hostile.Devices
	}
	return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n  - name: bench\n    backends:\n" + processes.String() +
		"      - {name: mock, settings: {count: 8, numaNodes: 2}}\n    resources:\n      - {name: " + resource + ", backend: mock}\n" + resources.String(), want
}

// peak measures an agent with some backends that do the same misdeed: its memory, and how long it
// takes to answer the liveness question and `accelmux status`.
func peak(s *rig.Setup, dir string, misdeed hostile.Misdeed, backends int) (_ rig.Figure, err error) {
	file := filepath.Join(dir, "on")
	text, want := crowd(misdeed.Name, file, backends)
	n, err := rig.Start(rig.NodeOptions{
		Bin: s.Bin, Config: text, Want: want, Metrics: true, Args: []string{"--backend-dir", dir}, Env: []string{memoryLimit},
	})
	if err != nil {
		return rig.Figure{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(file), n.Stop()) }()
	began := used(n.Agent)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return rig.Figure{}, err
	}
	length := memoryFor
	if s.Quick {
		length /= 4
	}
	for i := range backends {
		listed, err := rig.Poll(rig.Patience, pollEvery, func() (bool, error) { return len(n.Units(fmt.Sprint(bad, i))) > hostile.Devices, nil })
		if err != nil || !listed {
			return rig.Figure{}, errors.Join(fmt.Errorf("kubelet has none of its further devices within %v", rig.Patience), err)
		}
	}
	client := status.NewClient(n.Path("run"))
	var alive, report, scraped time.Duration // the slowest
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-second.C {
		for _, ask := range []struct {
			slowest *time.Duration
			do      func() error
		}{
			{&alive, func() error { return client.Alive(context.Background()) }},
			{&report, func() error { _, err := client.Report(context.Background()); return err }},
			{&scraped, func() error { return scrape(n.Metrics) }},
		} {
			asked := time.Now()
			if err := ask.do(); err != nil {
				return rig.Figure{}, err
			}
			*ask.slowest = max(*ask.slowest, time.Since(asked))
		}
	}
	memory, err := rig.PeakMemory(n.Agent)
	what := "while a backend "
	if backends > 1 {
		what = fmt.Sprintf("while each of %d backends ", backends)
	}
	return rig.Figure{
		What: "peak, " + what + misdeed.What, Unit: "MB", Value: memory, Limit: containerSize,
		Note: fmt.Sprintf("the core took %.0f %% of a CPU; slowest answers: liveness %v, status %v, metrics %v", 100*(used(n.Agent)-began).Seconds()/length.Seconds(),
			alive.Round(time.Millisecond), report.Round(time.Millisecond), scraped.Round(time.Millisecond)),
	}, err
}

// scrape reads the metrics. Backends measure telemetry only while a client requests metrics.
func scrape(address string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
