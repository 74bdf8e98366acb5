package health

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxRemembered bounds the stored faults of a backend, in bytes: faultCost and the texts
	// of each fault. Beyond it only the gravest fault of each device is stored, with texts
	// of at most tightMessage bytes, until all faults of the backend are cleared.
	maxRemembered = 4 << 20
	faultCost     = 128
	tightMessage  = 64
)

func (f *fault) cost() int { return faultCost + len(f.code) + len(f.message) + len(f.note) }

// remembered returns the bytes of stored faults by backend. The caller holds j.mu, or is
// the only user.
func (j *Judge) remembered() map[string]int {
	used := map[string]int{}
	for k, r := range j.records {
		for _, f := range r.faults {
			used[k.Backend] += f.cost()
		}
	}
	return used
}

// keepBudget drops faults of each backend that exceed its budget. The caller holds j.mu, or
// is the only user.
func (j *Judge) keepBudget() {
	used := j.remembered()
	for backend := range j.tight {
		if used[backend] == 0 {
			delete(j.tight, backend)
			j.log.Info("all faults of the backend are stored again", "backend", backend)
		}
	}
	for backend, n := range used {
		if n > maxRemembered && !j.tight[backend] {
			j.tight[backend] = true
			j.log.Warn("faults of the backend exceed their budget, only the gravest of each device is stored", "backend", backend, "bytes", n)
		}
	}
	for k, r := range j.records {
		if tight := j.tight[k.Backend]; r.tight != tight {
			if r.tight = tight; tight && r.tighten() {
				j.version++
			}
		}
	}
}

// tighten keeps only the gravest fault that is not cleared, or the gravest cleared one, and
// the beginning of its texts. It reports whether anything changed.
func (r *record) tighten() bool {
	if len(r.faults) == 0 {
		return false
	}
	keep := max(0, slices.IndexFunc(r.faults, func(f *fault) bool { return !f.cleared() }))
	f := r.faults[keep]
	f.message, f.note = text.Cut(f.message, tightMessage), text.Cut(f.note, tightMessage)
	r.faults = []*fault{f}
	return true
}

// budgetNotes returns the problems of backends that exceed their budget. The caller holds j.mu.
func (j *Judge) budgetNotes() []string {
	var notes []string
	for _, backend := range slices.Sorted(maps.Keys(j.tight)) {
		notes = append(notes, fmt.Sprintf(
			"the faults of backend %s take more than %d MiB, so only the gravest fault of each device is stored; make the backend report fewer codes and shorter messages",
			backend, maxRemembered>>20))
	}
	return notes
}

// fitting returns a report of health with a message that fits into the budget.
func (r *record) fitting(h inventory.Health) inventory.Health {
	if r.tight {
		h.Message = text.Cut(h.Message, tightMessage)
	}
	return h
}
