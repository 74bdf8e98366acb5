package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/nvml"
)

// Of the settings, "reset: never": the fault that asks for a reset would get it, and
// a driver that is let go for a reset hears of no fault of the next GPU.
const (
	// spacing lets each fault find the node at rest: the agent sends kubelet lists
	// of one resource at least 50 ms apart.
	spacing  = 100 * time.Millisecond
	resource = "nvidia.com/gpu"
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: nvidia
        recovery: {delay: 0s, reset: never}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf, ACCELMUX_NVML_CALLS: DIR/nvml.calls}
        settings: {library: LIBRARY, edits: {driverRoot: DIR/driver}}
    resources:
      - {name: nvidia.com/gpu, class: gpu, replicas: REPLICAS}
`
)

// node is a rig's, with NVIDIA's driver.
type node struct {
	*rig.Node
	replicas int
	driver   *nvml.Double
}

func startNode(bin, library string, replicas int) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return nil, err
	}
	driver, err := newDouble(library, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	text := strings.NewReplacer("DIR", dir, "LIBRARY", library, "REPLICAS", fmt.Sprint(replicas)).Replace(config)
	started, err := rig.StartNode(bin, dir, text, resource, gpus*replicas)
	if err != nil {
		return nil, err
	}
	n := &node{Node: started, replicas: replicas, driver: driver}
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	if err := n.driver.Await(ctx, func(calls []nvml.Call) bool {
		return slices.ContainsFunc(calls, func(c nvml.Call) bool { return c.Function == "nvmlEventSetWait_v2" && c.Outcome == nvml.Waits })
	}); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// fault is a way to fail.
type fault struct {
	name string
	// before is what is set of the GPU before the event, and event what it tells.
	before func(nvml.Section)
	event  string
}

var (
	// xid is judged by the table: drivers before R555 have no recovery action.
	xid = fault{"XID 79 to kubelet", func(g nvml.Section) { g.Delete("recovery-action") }, "xid 79"}
	// recovery is the driver's own word.
	recovery = fault{"recovery action to kubelet", func(g nvml.Section) { g.Set("recovery-action", 1) }, "type gpu-recovery-action"}
)

// faults lets all GPUs fail one after the other, and heal, in each round. What
// counts is the time from NVML's answer to the wait for events until kubelet has the
// list.
func (n *node) faults(way fault, rounds int) (_ []rig.Figure, err error) {
	h, err := rig.StartHop()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	var hops []time.Duration
	var told, heard []time.Time
	for range rounds {
		for slot := range gpus {
			<-time.After(spacing)
			hop, err := h.Take()
			if err != nil {
				return nil, err
			}
			if err := n.driver.Update(func(s nvml.State) { way.before(s.GPU(slot)) }); err != nil {
				return nil, err
			}
			told, hops = append(told, time.Now()), append(hops, hop)
			if _, err := n.driver.Event(fmt.Sprintf("gpu %d %s", slot, way.event)); err != nil {
				return nil, err
			}
			at, err := n.Await(gpus - slot - 1)
			if err != nil {
				return nil, err
			}
			heard = append(heard, at)
		}
		if err := n.heal(); err != nil {
			return nil, err
		}
	}
	took, err := n.sinceNVML(told, heard)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d faults, slowest %.1f ms", len(took), rig.Milliseconds(rig.Quantile(took, 1)))
	const floor = "a byte to another process and back"
	return []rig.Figure{
		{What: way.name + ", median", Value: rig.Milliseconds(rig.Median(took)), Unit: "ms", Floor: rig.Milliseconds(rig.Median(hops)), FloorIs: floor},
		{
			What: way.name + ", p99", Value: rig.Milliseconds(rig.Quantile(took, 0.99)), Limit: 10, Unit: "ms",
			Floor: rig.Milliseconds(rig.Quantile(hops, 0.99)), FloorIs: floor, Note: note,
		},
	}, nil
}

// sinceNVML is how long after NVML said so kubelet heard of each fault, without
// those that a look at all GPUs found first.
func (n *node) sinceNVML(told, heard []time.Time) ([]time.Duration, error) {
	answers, err := n.driver.Told(told)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, len(told))
	for i, at := range answers {
		if !at.IsZero() && at.Before(heard[i]) {
			took = append(took, heard[i].Round(0).Sub(at))
		}
	}
	if len(took) < len(told)*9/10 {
		return nil, fmt.Errorf("%d of %d faults reached kubelet without a call of NVML", len(told)-len(took), len(told))
	}
	return took, nil
}

// heal lets the driver say that all GPUs are fit.
func (n *node) heal() error {
	err := n.driver.Update(func(s nvml.State) {
		for slot := range gpus {
			s.GPU(slot).Set("recovery-action", 0)
		}
	})
	if err != nil {
		return err
	}
	for slot := range gpus {
		if _, err := n.driver.Event(fmt.Sprintf("gpu %d type gpu-recovery-action", slot)); err != nil {
			return err
		}
	}
	_, err = n.Await(gpus)
	return err
}
