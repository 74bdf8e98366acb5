// Package rest is the section of what a node pays while nothing happens, and what one
// allocation and one fault leave behind for the collector.
package rest

import (
	"context"
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
		"4,000 devices of one backend each. Memory is RssAnon, CPU the processes' clocks, both before the first request for\n" +
		"metrics. After that, what the core allocates in 60 s, by its own /metrics, less what the requests take, without telemetry;\n" +
		"one Allocate and one change of health are counted with all that follows them.",
	Measure: measure,
}

const (
	resource = "example.com/gpu"
	idle     = 60 * time.Second
	few      = 8
	many     = 1000
	most     = 4_000
	// mostAsked is how often the counters of the node with most devices are read: what an
	// answer allocates is by that much less than what the limit allows in the time.
	mostAsked = 10
	// nothing is less than an allocation a second for every second device: what /metrics
	// cannot tell from none. Bytes have no limit: they come in pieces too large for that.
	nothing = 0.5
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
		Bin: s.Bin, Config: fmt.Sprintf(config, backends), Want: map[string]int{resource: len(names) * devices}, Metrics: true,
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
	var figures []rig.Figure
	for _, more := range []func() ([]rig.Figure, error){
		func() ([]rig.Figure, error) {
			all := slices.Concat(small.processes(""), large.processes(" with 1,000 devices"), largest.processes(" with 4,000 devices"))
			return rig.Idle(all, pause, "at rest")
		},
		func() ([]rig.Figure, error) { return memory(small) }, // before the first request for metrics
		func() ([]rig.Figure, error) { return garbage(pause, small, large, largest) },
		func() ([]rig.Figure, error) { return allocations(s, small) },
		func() ([]rig.Figure, error) { return flaps(s, small) },
	} {
		f, err := more()
		if err != nil {
			return nil, err
		}
		figures = append(figures, f...)
	}
	return figures, nil
}

// processes are the core and the first backend, with the limit of their idle CPU.
func (n *node) processes(with string) []rig.Process {
	return []rig.Process{{Name: "core" + with, PID: n.Agent, CPU: 0.1}, {Name: "backend" + with, PID: n.Backend, CPU: 0.1}}
}

// garbage leaves the nodes alone, and says what the number of devices makes of it.
func garbage(pause time.Duration, small, large, largest *node) ([]rig.Figure, error) {
	var one, thousand rig.Garbage
	one, err := rig.GarbageOf(small.Metrics, func() (err error) {
		thousand, err = rig.GarbageOf(large.Metrics, alone(pause))
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := rig.GarbageBetween(largest.Metrics, mostAsked, alone(pause))
	if err != nil {
		return nil, err
	}
	return slices.Concat(perDevice(pause, one, thousand, many, 0, "1,000 devices"), perDevice(pause, one, all, most, 0, "4,000 devices")), nil
}

// alone leaves a node alone.
func alone(pause time.Duration) func() error {
	return func() error {
		<-time.After(pause)
		return nil
	}
}

// perDevice is what a second of a device costs, of a node with so many beside one with few;
// the limit is that of bytes.
func perDevice(pause time.Duration, less, more rig.Garbage, devices int, limit float64, name string) []rig.Figure {
	each := more.Minus(less).Times(1 / pause.Seconds() / float64(devices-few))
	note := func(less, more float64) string {
		return fmt.Sprintf("over %v: %.0f and %.0f a second with %d devices and with %s", pause, less/pause.Seconds(), more/pause.Seconds(), few, name)
	}
	return []rig.Figure{
		{What: "bytes for a device a second at rest, " + name, Value: each.Bytes, Limit: limit, Unit: "B", Note: note(less.Bytes, more.Bytes)},
		{What: "allocations for a device a second at rest, " + name, Value: each.Allocations, Limit: nothing, Unit: "1", Note: note(less.Allocations, more.Allocations)},
	}
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

// apart is the time between two events, in which all that follows an event is done.
const apart = 250 * time.Millisecond

// allocations counts what one Allocate of each size leaves behind.
func allocations(s *rig.Setup, n *node) (_ []rig.Figure, err error) {
	conn, err := rig.Dial(n.Socket(resource))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	client, ids := pluginapi.NewDevicePluginClient(conn), n.Units(resource)
	var figures []rig.Figure
	for _, wanted := range [][]string{ids[:1], ids} {
		f, err := n.count(s.Samples(60), fmt.Sprintf("one Allocate, %d of %d devices", len(wanted), few), func(int) error {
			_, err := client.Allocate(context.Background(), rig.AllocateRequest(wanted...))
			return err
		})
		if err != nil {
			return nil, err
		}
		figures = append(figures, f...)
	}
	return figures, nil
}

// flaps counts what a device that fails and recovers leaves behind, by turns.
func flaps(s *rig.Setup, n *node) ([]rig.Figure, error) {
	return n.count(2*s.Samples(30), fmt.Sprintf("one change of health, %d devices", few), func(i int) error {
		text, healthy := "devices: {one-0: {recovered: true}}\n", few
		if i%2 == 0 {
			text, healthy = "devices: {one-0: {fault: {code: bench}}}\n", few-1
		}
		if err := n.Replace("scenario.yaml", text); err != nil {
			return err
		}
		_, err := n.Await(healthy)
		return err
	})
}

// count is what each of some events leaves behind, beside the same time at rest.
func (n *node) count(events int, name string, event func(i int) error) ([]rig.Figure, error) {
	// Each event in the same time, and nothing in it the other time.
	var rest rig.Garbage
	all, err := rig.GarbageOf(n.Metrics, func() error {
		for i := range events {
			next := time.After(apart)
			if err := event(i); err != nil {
				return err
			}
			<-next
		}
		return nil
	})
	if err == nil {
		rest, err = rig.GarbageOf(n.Metrics, alone(time.Duration(events)*apart))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	each := all.Minus(rest).Times(1 / float64(events))
	return []rig.Figure{
		{What: "bytes for " + name, Value: each.Bytes, Unit: "B", Samples: events},
		{What: "allocations for " + name, Value: each.Allocations, Unit: "1", Samples: events},
	}, nil
}
