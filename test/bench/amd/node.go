package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/bench/rig"
)

const config = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: amd
        recovery: {delay: 0s, reset: never}
        settings: {partitions: {strategy: mixed}}
    resources:
      - {name: "amd.com/{computePartition}_{memoryPartition}"}
`

// node is a rig's, with the machine.
type node struct {
	*rig.Node
	tree *amdtree.Tree
}

func measureNode(bin string, rounds int, idle time.Duration) (err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	started, err := rig.StartNode(bin, tree.Root, config, "amd.com/cpx_nps4", partitions)
	if err != nil {
		return err
	}
	n := &node{started, tree}
	defer func() { err = errors.Join(err, n.Stop()) }()
	figures, err := rig.Idle(n.processes(), idle, fmt.Sprintf("%d partitions", partitions))
	if err != nil {
		return err
	}
	rig.Show(figures)
	if figures, err = rig.Memory(n.processes(), "at rest", ""); err != nil {
		return err
	}
	rig.Show(figures)
	if figures, err = n.switches(rounds); err != nil {
		return err
	}
	rig.Show(figures)
	figures, err = rig.Memory(n.processes(), "after the switches", "")
	rig.Show(figures)
	return err
}

// processes are what is measured.
func (n *node) processes() []rig.Process {
	return []rig.Process{
		{Name: "backend", PID: n.Backend, CPU: 0.1, Memory: 20},
		{Name: "core", PID: n.Agent},
	}
}

// switches is how long after a card's mode is another kubelet has heard that its
// partitions are gone, and that they are there again. The tree tells nobody with a
// uevent, so it is the poll of KFD's generation that finds it.
func (n *node) switches(rounds int) ([]rig.Figure, error) {
	var took []time.Duration
	for round := range rounds {
		for _, to := range []struct {
			compute, memory string
			units           int
		}{{"SPX", "NPS1", partitions - 8}, {"CPX", "NPS4", partitions}} {
			if err := n.tree.SwitchPartition(round%8, to.compute, to.memory); err != nil {
				return nil, err
			}
			began := time.Now()
			at, err := n.Await(to.units)
			if err != nil {
				return nil, err
			}
			took = append(took, at.Sub(began))
		}
	}
	if len(took) == 0 {
		return nil, nil
	}
	return []rig.Figure{
		{What: "a switch of partitions to kubelet, median", Value: rig.Milliseconds(rig.Median(took)), Unit: "ms"},
		{
			What: "a switch of partitions to kubelet, slowest", Value: rig.Milliseconds(rig.Quantile(took, 1)), Unit: "ms",
			Note: fmt.Sprintf("%d switches; KFD is asked every 2 s", len(took)),
		},
	}, nil
}
