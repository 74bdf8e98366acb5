// Package scale measures a node with many devices: how long a fault takes to reach kubelet, and
// what changes cost the core.
package scale

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is the one of this package.
var Section = rig.Section{
	Name: "scale",
	About: "Faults and changes of 8, 1,000 and 4,096 devices. A fault counts from when the mock backend finds it in its scenario\n" +
		"file until the stand-in kubelet has read the list. The floor is a bare gRPC server in the benchmark's process, as the\n" +
		"stand-in is, that sends it a list of as many devices with IDs as long, from before it is sent. Memory is RssAnon.",
	Measure: measure,
}

const (
	resource = "example.com/gpu"
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: mock
        recovery: {delay: 0s}
        settings: {count: %d, scenarioFile: DIR/scenario.yaml, changeLog: DIR/changes}
    resources:
      - {name: example.com/gpu}
`
	// spacing lets each event find the node at rest: kubelet gets lists of one resource
	// at least 50 ms apart.
	spacing = 200 * time.Millisecond
	// changes is how many devices come or go.
	changes = 20
	// calm is how long after the start memory is measured, and settled how long after the last
	// change: by then the agent has returned to the system what it does not need.
	calm    = 2 * time.Second
	settled = 15 * time.Second
)

// node is a rig's, with the floor.
type node struct {
	*rig.Node
	shape
	bare *bare
	// changes is how many lines the mock's log has.
	changes int
}

func startNode(bin string, s shape) (_ *node, err error) {
	n := &node{shape: s, bare: newBare()}
	n.Node, err = rig.Start(rig.NodeOptions{
		Bin: bin, Config: fmt.Sprintf(config, s.devices), Want: map[string]int{resource: s.devices},
		Kubelet: kubelettest.Options{OnEvent: n.bare.take},
	})
	if err != nil {
		return nil, err
	}
	if err := n.bare.serve(n.Kubelet.PluginDir(), s.devices); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

func (n *node) stop() error {
	n.bare.stop()
	return n.Stop()
}

// shape is how many devices a node has.
type shape struct {
	name    string
	devices int
	// events is how many faults are measured.
	events int
	// limit is that of the 99th percentile in ms, memory that of the core in MB; 0 for
	// none.
	limit, memory float64
}

var shapes = []shape{
	{name: "8 devices", devices: 8, events: 200, limit: 10},
	{name: "1,000 devices", devices: 1000, events: 200},
	{name: "4,096 devices", devices: 4_096, events: 200, limit: 20, memory: 48},
}

func measure(setup *rig.Setup) ([]rig.Figure, error) {
	var all []rig.Figure
	for _, s := range shapes {
		figures, err := measureShape(setup, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, figures...)
	}
	return all, nil
}

func measureShape(setup *rig.Setup, s shape) (figures []rig.Figure, err error) {
	n, err := startNode(setup.Bin, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	m := &measured{shape: s, events: setup.Samples(s.events), changes: setup.Samples(changes) / 2 * 2}
	if err := n.measure(m); err != nil {
		return nil, err
	}
	return m.figures(), nil
}

// measured is what came of a shape.
type measured struct {
	shape
	// events and changes are how many of each there were.
	events, changes int
	// took are the faults' ways, floors those of the bare server's lists.
	took, floors []time.Duration
	// fresh and after are the core's memory in MB, before the first fault and at the end.
	fresh, after float64
}

// measure fills in all of it.
func (n *node) measure(m *measured) (err error) {
	<-time.After(calm)
	if m.fresh, err = rig.Anonymous(n.Agent); err != nil {
		return err
	}
	if m.took, m.floors, err = n.faults(m.events); err != nil {
		return err
	}
	if err := n.change(m.changes); err != nil {
		return err
	}
	<-time.After(settled)
	m.after, err = rig.Anonymous(n.Agent)
	return err
}

// figures are the lines of the table.
func (m *measured) figures() []rig.Figure {
	const sent = "a bare server's list of that size, to the same kubelet"
	quantile := func(of []time.Duration, q float64) float64 { return rig.Milliseconds(rig.Quantile(of, q)) }
	figures := []rig.Figure{
		{What: "fault to kubelet, p50", Value: quantile(m.took, 0.5), Unit: "ms", Samples: m.events, Floor: quantile(m.floors, 0.5), FloorIs: sent},
		{
			What: "fault to kubelet, p99", Value: quantile(m.took, 0.99), Unit: "ms", Limit: m.limit,
			Samples: m.events, Floor: quantile(m.floors, 0.99), FloorIs: sent,
		},
		{What: "anonymous memory of the core, fresh", Value: m.fresh, Unit: "MB", Limit: m.memory},
		{What: "anonymous memory of the core, after all that", Value: m.after, Unit: "MB", Limit: m.memory},
	}
	for i := range figures {
		figures[i].What += ": " + m.name
	}
	return figures
}

// scenario makes a text the mock's scenario, and waits until kubelet has so many healthy devices.
func (n *node) scenario(text string, healthy int) (time.Time, error) {
	<-time.After(spacing)
	if err := n.Replace("scenario.yaml", text); err != nil {
		return time.Time{}, err
	}
	return n.Await(healthy)
}

// faults lets devices fail and recover one after the other, and after each has the floor send a
// list.
func (n *node) faults(events int) (took, floors []time.Duration, err error) {
	n.changes = 1 // the first inventory
	for i := range events {
		heard, err := n.scenario(fmt.Sprintf("devices: {mock-%d: {fault: {code: x}}}", i*7%n.devices), n.devices-1)
		if err != nil {
			return nil, nil, err
		}
		n.changes++
		found, err := n.found()
		if err != nil {
			return nil, nil, err
		}
		took = append(took, heard.Sub(found))
		if _, err := n.scenario("", n.devices); err != nil {
			return nil, nil, err
		}
		n.changes++
		<-time.After(spacing)
		floor, err := n.bare.list(i % n.devices)
		if err != nil {
			return nil, nil, err
		}
		floors = append(floors, floor)
	}
	return took, floors, nil
}

// found is when the mock found its latest change; there must have been so many.
func (n *node) found() (at time.Time, err error) {
	ok, err := rig.Poll(rig.Patience, 10*time.Millisecond, func() (bool, error) {
		text, err := os.ReadFile(n.Path("changes"))
		if err != nil {
			return false, err
		}
		lines := strings.Fields(string(text))
		if len(lines) < n.changes || !strings.HasSuffix(string(text), "\n") {
			return false, nil
		}
		nanoseconds, err := strconv.ParseInt(lines[n.changes-1], 10, 64)
		at = time.Unix(0, nanoseconds)
		return true, err
	})
	if err == nil && !ok {
		err = errors.New("the mock backend has not logged its change")
	}
	return at, err
}

// change takes a device away and brings it back.
func (n *node) change(times int) error {
	for range times / 2 {
		if _, err := n.scenario("devices: {mock-3: {unplugged: true}}", n.devices-1); err != nil {
			return err
		}
		if _, err := n.scenario("", n.devices); err != nil {
			return err
		}
	}
	return nil
}
