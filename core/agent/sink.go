package agent

import (
	"errors"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// sink hands what backends report to the inventory. It implements
// supervisor.Sink.
type sink struct{ agent *Agent }

// Started begins a new life of a backend: its inventories count from 1 again.
func (s sink) Started(backend string, description inventory.Description) {
	s.agent.inventory.Restarted(backend)
	s.agent.inventory.Describe(backend, description)
}

// Described stores the attributes that the applied settings have.
func (s sink) Described(backend string, description inventory.Description) {
	s.agent.inventory.Describe(backend, description)
}

// Report stores an inventory, or returns what is wrong with it as a whole.
func (s sink) Report(backend string, wire *inventory.Report) error {
	return s.agent.inventory.Report(backend, wire)
}

// Lost starts the holdover, or removes a backend that is no longer configured. While the
// agent itself ends, everything stays.
func (s sink) Lost(backend string, reason error) {
	if errors.Is(reason, supervisor.ErrClosed) {
		return
	}
	s.agent.log.Warn("backend lost", "backend", backend, "error", reason)
	s.agent.inventory.Lost(backend)
}

// Changed lets a switch that waits for this backend go on.
func (s sink) Changed(string) { s.agent.poke() }
