package agent

import (
	"errors"
	"sync"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// sink hands what backends report to the inventory. It implements
// supervisor.Sink.
type sink struct{ agent *Agent }

// descriptions are what the backends in the inventory last said of themselves. A
// backend that starts and a plan that comes in force both describe backends to
// the inventory: under one lock, so that neither undoes what the other did.
type descriptions struct {
	mu sync.Mutex
	of map[string]described
}

type described struct {
	description inventory.Description
	// lost: nothing is reported, and no Lost is to come.
	lost bool
}

// Started begins a new life of a backend: its inventories count from 1 again.
func (s sink) Started(backend string, description inventory.Description) {
	s.agent.inventory.Restarted(backend)
	s.Described(backend, description)
}

// Described has the devices checked against what the backend declares now.
func (s sink) Described(backend string, description inventory.Description) {
	all := &s.agent.descriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	all.of[backend] = described{description: description}
	if b := s.agent.plans.backend(backend); b != nil {
		s.agent.inventory.Describe(backend, description, s.agent.editPolicy(b))
	}
}

// Report takes in an inventory, or says what is wrong with it as a whole.
func (s sink) Report(backend string, wire *backendv1.Inventory) error {
	return s.agent.inventory.Report(backend, wire)
}

// Lost starts the holdover, or ends what is known of a backend that was removed.
func (s sink) Lost(backend string, reason error) {
	if errors.Is(reason, supervisor.ErrClosed) {
		return
	}
	all := &s.agent.descriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	removed := errors.Is(reason, supervisor.ErrRemoved) && s.agent.plans.inForce().backend(backend) == nil
	if removed || s.agent.plans.backend(backend) == nil {
		delete(all.of, backend)
		s.agent.inventory.Remove(backend)
		return
	}
	s.agent.log.Warn("backend lost, its last inventory stays for the holdover", "backend", backend, "error", reason)
	all.of[backend] = described{description: all.of[backend].description, lost: true}
	s.agent.inventory.Lost(backend)
}

// Changed lets a switch that waits for this backend go on.
func (s sink) Changed(string) { s.agent.poke() }

// adopt has the devices checked against the policies of the plan in force, and
// forgets those of backends that no plan has. A backend that still reports is
// forgotten when the supervisor has stopped it: until then nobody sees its devices
// (plan.part), and its last reports are no mistake of its own.
func (a *Agent) adopt() {
	all := &a.descriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, d := range all.of {
		if b := a.plans.backend(name); b != nil {
			a.inventory.Describe(name, d.description, a.editPolicy(b))
		} else if d.lost {
			a.inventory.Remove(name)
			delete(all.of, name)
		}
	}
}
