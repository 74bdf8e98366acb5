package main

import (
	"fmt"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/nvml"
)

// processes are what is measured.
func (n *node) processes() []rig.Process {
	return []rig.Process{
		{Name: "backend", PID: n.Backend, CPU: 0.1, Memory: 25},
		{Name: "core", PID: n.Agent},
	}
}

// rest leaves the node alone, and says what that costs.
func (n *node) rest(idle time.Duration) ([]rig.Figure, error) {
	when := fmt.Sprintf("%d replicas", n.replicas)
	before, err := n.switches()
	if err != nil {
		return nil, err
	}
	figures, err := rig.Idle(n.processes(), idle, when)
	if err != nil {
		return nil, err
	}
	after, err := n.switches()
	if err != nil {
		return nil, err
	}
	for i, p := range n.processes() {
		figures = append(figures, rig.Figure{
			What: fmt.Sprintf("voluntary context switches of the %s, %s", p.Name, when), Unit: "1",
			Value: float64(after[i]-before[i]) * 30 / idle.Seconds(), Note: "in 30 s",
		})
	}
	memory, err := n.memory("fresh, " + when)
	return append(figures, memory...), err
}

// memory says what the processes have of it.
func (n *node) memory(when string) ([]rig.Figure, error) {
	return rig.Memory(n.processes(), when, nvml.LibraryName)
}

// switches counts the voluntary context switches of each process so far.
func (n *node) switches() ([]int, error) {
	var all []int
	for _, p := range n.processes() {
		count, err := rig.Switches(p.PID)
		if err != nil {
			return nil, err
		}
		all = append(all, count)
	}
	return all, nil
}
