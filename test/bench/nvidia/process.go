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
	figures, err := rig.Idle(n.processes(), idle, when)
	if err != nil {
		return nil, err
	}
	memory, err := n.memory("fresh, " + when)
	return append(figures, memory...), err
}

// memory says what the processes have of it.
func (n *node) memory(when string) ([]rig.Figure, error) {
	return rig.Memory(n.processes(), when, nvml.LibraryName)
}
