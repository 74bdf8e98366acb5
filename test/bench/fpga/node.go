package main

import (
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// config is that of the node, with the directory of bitstreams.
const config = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: fpga
        recovery: {delay: 0s, reset: never}
        settings: {mode: region, bitstreams: %q}
    resources:
      - name: fpga.intel.com/{regionName}
        parameters: {bitstream: {value: ` + file + `}}
`

// resource is that of all cards.
const resource = "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca"

// measureNode says what a node costs that is left alone.
func measureNode(o options) (err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	n, err := rig.StartNode(o.bin, tree.Root, fmt.Sprintf(config, tree.Root), resource, cards)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	figures, err := rig.Idle(processes(n), o.idle, fmt.Sprintf("%d cards", cards))
	if err != nil {
		return err
	}
	rig.Show(figures)
	figures, err = rig.Memory(processes(n), "at rest", "")
	rig.Show(figures)
	return err
}

// processes are what is measured.
func processes(n *rig.Node) []rig.Process {
	return []rig.Process{
		{Name: "backend", PID: n.Backend, CPU: 0.1, Memory: 20},
		{Name: "core", PID: n.Agent},
	}
}
