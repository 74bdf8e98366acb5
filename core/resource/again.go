package resource

import (
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// Most snapshots differ from the one before in the health of a few devices. Then the
// table is the one before with other states of them, and nothing else is looked at.

// mapped is what the latest table was made from. It never changes.
type mapped struct {
	snap *inventory.Snapshot
	held map[string]bool
	// faulty says where the units are of the devices that were not healthy.
	faulty map[inventory.Key]unitsAt
}

// unitsAt is where in a table the units of a device begin.
type unitsAt struct{ resource, unit int32 }

// nowhere is of a device without units.
var nowhere = unitsAt{-1, -1}

// layout says where in a table the units of each device are. It never changes, and
// tables with the same units in the same places share it.
type layout struct {
	// first is by backend and device of the snapshot.
	first [][]unitsAt
	// units is how many each resource has, and replicas how many of them each device.
	units, replicas []int
}

func newLayout(snap *inventory.Snapshot) *layout {
	l := &layout{first: make([][]unitsAt, len(snap.Backends))}
	for i, backend := range snap.Backends {
		l.first[i] = make([]unitsAt, len(backend.Devices))
	}
	return l
}

// close takes note of how many units there are.
func (l *layout) close(t *Table) {
	for _, r := range t.Resources {
		l.units, l.replicas = append(l.units, len(r.Units)), append(l.replicas, r.Replicas)
	}
}

// SamePlaces reports whether both are tables of one Mapper with the same resources and
// the same units in the same places, for devices with the same keys and parents at the
// same places of their snapshots. It costs nothing, and may be false though all of that
// is so.
func (t *Table) SamePlaces(o *Table) bool { return t.layout != nil && t.layout == o.layout }

// Mapped is how many units of a resource, given by its place, are devices' of the
// snapshot, for a table that has SamePlaces with some other: the rest was added by
// somebody else.
func (t *Table) Mapped(place int) int { return t.layout.units[place] }

// again makes the table from the latest one, or returns nil if more differs than
// states of devices that are assigned as they were. The caller holds m.mu.
func (m *Mapper) again(snap *inventory.Snapshot, verdicts Verdicts, held map[string]bool) *Table {
	before := m.latest
	if before == nil || !maps.Equal(before.held, held) || !m.names.retryAt.IsZero() {
		return nil
	}
	changed, ok := inventory.Differences(before.snap, snap)
	if !ok || !m.assignedAsBefore(snap, changed) {
		return nil
	}
	t := m.empty(snap, held)
	t.Problems, t.Unassigned, t.layout = m.last.Problems, m.last.Unassigned, m.last.layout
	for i, r := range t.Resources {
		r.Units = m.last.Resources[i].Units
	}
	w := rewriter{table: t, own: make([]bool, len(t.Resources))}
	for _, at := range changed {
		d := snap.Backends[at.Backend].Devices[at.Device]
		w.each(t.layout.first[at.Backend][at.Device], func(u *Unit) { u.Device = d })
	}
	now := t.layout.find(snap, before, changed, verdicts)
	for key, at := range now {
		w.judge(at, key, verdicts)
	}
	for key, at := range before.faulty {
		if _, still := now[key]; !still {
			w.judge(at, key, verdicts)
		}
	}
	for i, backend := range snap.Backends {
		next := *m.cache[backend.Name]
		next.devices = snap.Backends[i].Devices
		m.cache[backend.Name] = &next
	}
	m.latest = &mapped{snap: snap, held: held, faulty: now}
	return t
}

// assignedAsBefore reports whether the rules make of the devices at these places what
// they made of the ones before. The caller holds m.mu.
func (m *Mapper) assignedAsBefore(snap *inventory.Snapshot, changed []inventory.Place) bool {
	for _, backend := range snap.Backends {
		if !m.cache[backend.Name].describes(backend) {
			return false
		}
	}
	for _, at := range changed {
		backend := snap.Backends[at.Backend]
		if !m.evaluate(backend, backend.Devices[at.Device]).same(m.cache[backend.Name].assigned[at.Device]) {
			return false
		}
	}
	return true
}

// find says where the units are of the devices that are faulty. For a snapshot with the
// same places, what before says counts, and changed are the places to look at first:
// what fails mostly says so itself.
func (l *layout) find(snap *inventory.Snapshot, before *mapped, changed []inventory.Place, verdicts Verdicts) map[inventory.Key]unitsAt {
	found, unknown := map[inventory.Key]unitsAt{}, map[inventory.Key]struct{}{}
	for key := range verdicts.Faulty() {
		at, ok := nowhere, false
		if before != nil {
			at, ok = before.faulty[key]
		}
		if found[key] = at; !ok {
			found[key], unknown[key] = nowhere, struct{}{}
		}
	}
	look := func(backend, device int, key inventory.Key) {
		if _, ok := unknown[key]; ok {
			found[key] = l.first[backend][device]
			delete(unknown, key)
		}
	}
	for _, at := range changed {
		look(int(at.Backend), int(at.Device), snap.Backends[at.Backend].Devices[at.Device].Key)
	}
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			if len(unknown) == 0 {
				return found
			}
			look(i, j, d.Key)
		}
	}
	return found
}

// rewriter changes units of a table that shares them with the one before.
type rewriter struct {
	table *Table
	own   []bool // by resource: its units are a copy
}

// each calls change with the units that begin there.
func (w *rewriter) each(at unitsAt, change func(*Unit)) {
	if at == nowhere {
		return
	}
	r := w.table.Resources[at.resource]
	if !w.own[at.resource] {
		r.Units, w.own[at.resource] = slices.Clone(r.Units), true
	}
	for i := range w.table.layout.replicas[at.resource] {
		change(&r.Units[int(at.unit)+i])
	}
}

// judge gives the units of a device its verdict.
func (w *rewriter) judge(at unitsAt, key inventory.Key, verdicts Verdicts) {
	if at == nowhere {
		return
	}
	verdict := verdicts.Verdict(key)
	if u := &w.table.Resources[at.resource].Units[at.unit]; u.Verdict.Same(verdict) {
		return
	}
	w.each(at, func(u *Unit) { u.Verdict = verdict })
}
