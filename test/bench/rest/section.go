// Package rest is the section of what a node pays while nothing happens.
package rest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "rest",
	About: "A node that is left alone for 60 s, with 8 devices of 4 mock backends; beside it one with 1,000 and one with\n" +
		"4,000 devices of one backend each. Memory is RssAnon, CPU the processes' clocks, both without requests for metrics.",
	Measure: measure,
}

const (
	resource = "example.com/gpu"
	idle     = 60 * time.Second
	few      = 8
	many     = 1000
	most     = 4_000
	// settled is how long after its start a node has done all that belongs to it.
	settled = 15 * time.Second
	config  = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends: %s
    resources:
      - {name: example.com/gpu}
`
	backend = `
      - name: %s
        command: accelmux-backend-mock
        recovery: {delay: 0s, reset: never}
        telemetry: {sample: never}
        settings: {count: %d, id: "%s-{{.Index}}", scenarioFile: DIR/scenario.yaml}`
)

// start starts a node of so many backends with as many devices each.
func start(s *rig.Setup, names []string, devices int) (*node, error) {
	var backends string
	for _, name := range names {
		backends += fmt.Sprintf(backend, name, devices, name)
	}
	n, err := rig.Start(rig.NodeOptions{
		Bin: s.Bin, Config: fmt.Sprintf(config, backends), Want: map[string]int{resource: len(names) * devices},
	})
	return &node{n}, err
}

// node is a rig's.
type node struct{ *rig.Node }

func measure(s *rig.Setup) (_ []rig.Figure, err error) {
	names := []string{"one", "two", "three", "four"}
	small, err := start(s, names, few/len(names))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, small.Stop()) }()
	large, err := start(s, names[:1], many)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, large.Stop()) }()
	largest, err := start(s, names[:1], most)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, largest.Stop()) }()
	pause, begin := idle, settled
	if s.Quick {
		pause, begin = 3*time.Second, time.Second
	}
	<-time.After(begin)
	figures, err := rig.Idle(slices.Concat(small.processes(""), large.processes(" with 1,000 devices"), largest.processes(" with 4,000 devices")), pause, "at rest")
	if err != nil {
		return nil, err
	}
	used, err := memory(small)
	return append(figures, used...), err
}

// processes are the core and the first backend, with the limit of their idle CPU.
func (n *node) processes(with string) []rig.Process {
	return []rig.Process{{Name: "core" + with, PID: n.Agent, CPU: 0.1}, {Name: "backend" + with, PID: n.Backend, CPU: 0.1}}
}

// memory is what the processes have for themselves, beside a bare gRPC server.
func memory(n *node) (_ []rig.Figure, err error) {
	floor, err := rig.StartFloor(n.Path("floor.sock"), &pluginapi.AllocateResponse{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.Stop()) }()
	bare, err := rig.Anonymous(floor.PID())
	if err != nil {
		return nil, err
	}
	core, err := rig.Anonymous(n.Agent)
	if err != nil {
		return nil, err
	}
	all, largest := core, 0.0
	for _, pid := range n.Backends {
		backend, err := rig.Anonymous(pid)
		if err != nil {
			return nil, err
		}
		all, largest = all+backend, max(largest, backend)
	}
	const is = "a bare gRPC server"
	return []rig.Figure{
		{What: "anonymous memory of the core", Value: core, Limit: 20, Unit: "MB", Floor: bare, FloorIs: is},
		{What: "anonymous memory of a backend, the largest", Value: largest, Limit: 6, Unit: "MB", Floor: bare, FloorIs: is},
		{What: "anonymous memory of the core and 4 backends", Value: all, Limit: 40, Unit: "MB"},
	}, nil
}
