// Package scale measures a node with many devices: how long a fault takes to reach
// kubelet, and what changes cost the core. The agent, the mock backend, a stand-in
// kubelet and the floor are processes of their own.
package scale

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is the one of this package.
var Section = rig.Section{
	Name: "scale",
	About: "Faults and changes of 8, 1,000 and 4,096 devices. A fault counts from when the mock backend " +
		"notices it in its scenario file until the stand-in kubelet has taken in the list. The floor is a bare gRPC server that sends the same " +
		"kubelet a list of as many devices with IDs as long, from before it is sent. Bytes and allocations are those of the whole core process, by its own metrics.",
	Measure: measure,
	Roles: map[string]rig.Role{
		roleKubelet: func(args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want a directory, got %q", args)
			}
			return serveKubelet(args[0], os.Stdin, os.Stdout)
		},
		roleBare: func(args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want a directory and a resource, got %q", args)
			}
			return serveBare(args[0], args[1], os.Stdin, os.Stdout)
		},
	},
}

const (
	roleKubelet = "scale-kubelet"
	roleBare    = "scale-bare"
	// spacing lets each event find the node at rest: kubelet gets lists of one resource
	// at least 50 ms apart.
	spacing = 200 * time.Millisecond
	// changes is how many devices come or go for what a change costs.
	changes = 20
	// calm is how long after the start memory is measured, and settled how long after metrics
	// were requested: by then the agent has returned to the system what it does not need.
	calm    = 2 * time.Second
	settled = 13 * time.Second
	// idle is how long the node is left alone.
	idle = 20 * time.Second
)

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
	m := &measured{shape: s, events: setup.Samples(s.events), changes: setup.Samples(changes) / 2 * 2, pause: idle}
	// With many units an answer of /metrics takes half a second.
	n.readings = min(400, 500_000/s.devices)
	if setup.Quick {
		n.readings, m.pause = n.readings/4, time.Second
	}
	if err := n.measure(m); err != nil {
		return nil, err
	}
	return m.figures(), nil
}

// measured is what came of a shape.
type measured struct {
	shape
	// events and changes are how many of each there were, and pause how long the node was
	// left alone.
	events, changes int
	pause           time.Duration
	// took are the faults' ways, floors those of the bare server's lists.
	took, floors       []time.Duration
	flap, change, rest rig.Garbage
	// fresh and after are the core's memory in MB, before the first fault and at the end.
	fresh, after float64
}

// measure fills in all of it.
func (n *node) measure(m *measured) (err error) {
	<-time.After(calm)
	if m.fresh, err = rig.Anonymous(n.agent.Process.Pid); err != nil {
		return err
	}
	if m.flap, err = n.garbage(2*m.events, func() (err error) {
		m.took, m.floors, err = n.faults(m.events)
		return err
	}); err != nil {
		return err
	}
	if m.change, err = n.garbage(m.changes, func() error { return n.change(m.changes) }); err != nil {
		return err
	}
	<-time.After(2 * time.Second)
	if m.rest, err = n.garbage(1, func() error {
		<-time.After(m.pause)
		return nil
	}); err != nil {
		return err
	}
	<-time.After(settled) // after the request itself
	m.after, err = rig.Anonymous(n.agent.Process.Pid)
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
		{What: "bytes allocated for a flap", Value: m.flap.Bytes / 1000, Unit: "kB", Samples: 2 * m.events, Note: "a fault or a recovery"},
		{What: "allocations for a flap", Value: m.flap.Allocations, Unit: "1", Samples: 2 * m.events},
		{What: "bytes allocated for a change", Value: m.change.Bytes / 1000, Unit: "kB", Samples: m.changes, Note: "a device comes or goes"},
		{What: "allocations for a change", Value: m.change.Allocations, Unit: "1", Samples: m.changes},
		{
			What: "allocations a second and device, with telemetry", Value: m.rest.Allocations / m.pause.Seconds() / float64(m.devices), Unit: "1/s",
			Note: fmt.Sprintf("%.0f a second in all; the section rest has it without", m.rest.Allocations/m.pause.Seconds()),
		},
		{What: "anonymous memory of the core, fresh", Value: m.fresh, Unit: "MB", Limit: m.memory},
		{What: "anonymous memory of the core, after all that", Value: m.after, Unit: "MB", Limit: m.memory, Note: "metrics were asked for, with telemetry"},
	}
	for i := range figures {
		figures[i].What += ": " + m.name
	}
	return figures
}

// faults lets devices fail and recover one after the other, and after each has the
// floor send a list.
func (n *node) faults(events int) (took, floors []time.Duration, err error) {
	n.changes = 1 // the first inventory
	for i := range events {
		<-time.After(spacing)
		if err := n.scenario(fmt.Sprintf("devices: {mock-%d: {fault: {code: x}}}", i*7%n.devices)); err != nil {
			return nil, nil, err
		}
		heard, err := n.await(resource, n.devices, n.devices-1)
		if err != nil {
			return nil, nil, err
		}
		n.changes++
		told, err := n.noticed()
		if err != nil {
			return nil, nil, err
		}
		took = append(took, heard.Sub(told))
		<-time.After(spacing)
		if err := n.scenario(""); err != nil {
			return nil, nil, err
		}
		if _, err := n.await(resource, n.devices, n.devices); err != nil {
			return nil, nil, err
		}
		n.changes++
		floor, err := n.floor(i % n.devices)
		if err != nil {
			return nil, nil, err
		}
		floors = append(floors, floor)
	}
	return took, floors, nil
}

// floor has the bare server send its list, with another device unhealthy.
func (n *node) floor(device int) (time.Duration, error) {
	<-time.After(spacing)
	if _, err := fmt.Fprintln(n.bare.in, device); err != nil {
		return 0, err
	}
	heard, err := n.await(floor, n.devices, n.devices-1)
	if err != nil {
		return 0, err
	}
	line, err := n.bare.line()
	if err != nil {
		return 0, err
	}
	sent, err := strconv.ParseInt(line, 10, 64)
	return heard.Sub(time.Unix(0, sent)), err
}

// change takes a device away and brings it back.
func (n *node) change(times int) error {
	for range times / 2 {
		for _, gone := range []int{1, 0} {
			<-time.After(spacing)
			text := ""
			if gone > 0 {
				text = "devices: {mock-3: {unplugged: true}}"
			}
			if err := n.scenario(text); err != nil {
				return err
			}
			units := n.devices - gone
			if _, err := n.await(resource, units, units); err != nil {
				return err
			}
		}
	}
	return nil
}
