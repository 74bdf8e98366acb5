package resource

import "github.com/accelmux/accelmux/core/inventory"

// contest is a device ID in one of the resources that several backends report.
type contest struct {
	place int
	id    string
}

// contested are such IDs, each with the backend that has it. Within one resource an ID
// counts once: kubelet knows no backends. Who had it before keeps it, so that no
// backend takes away another's devices. The caller holds m.mu.
func (m *Mapper) contested(snap *inventory.Snapshot, assigned [][]*assignment, t *Table) map[contest]string {
	shared := m.shared(snap, assigned, len(t.Resources))
	if shared == nil {
		return nil
	}
	first := map[contest]string{}
	owners := map[contest]string{}
	had := map[int]map[inventory.Key]bool{}
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			place := m.names.place(assigned[i][j])
			if place < 0 || !shared[place] {
				continue
			}
			at := contest{place, d.ID}
			before, claimed := first[at]
			if !claimed {
				first[at] = backend.Name
				continue
			}
			if had[place] == nil {
				had[place] = m.before(t.Resources[place].Name)
			}
			if owners[at] == "" {
				owners[at] = before
			}
			if had[place][d.Key] {
				owners[at] = backend.Name
			}
		}
	}
	return owners
}

// shared are the places that devices of several backends come to; nil if there are
// none: within one backend IDs differ.
func (m *Mapper) shared(snap *inventory.Snapshot, assigned [][]*assignment, places int) []bool {
	var shared []bool
	backends := make([]string, places)
	for i, backend := range snap.Backends {
		for _, a := range assigned[i] {
			place := m.names.place(a)
			switch {
			case place < 0 || backends[place] == backend.Name:
			case backends[place] == "":
				backends[place] = backend.Name
			default:
				if shared == nil {
					shared = make([]bool, places)
				}
				shared[place] = true
			}
		}
	}
	return shared
}

// before are the devices that the resource had in the latest table.
func (m *Mapper) before(resource string) map[inventory.Key]bool {
	had := map[inventory.Key]bool{}
	if m.last == nil {
		return had
	}
	for _, r := range m.last.Resources {
		if r.Name != resource {
			continue
		}
		for _, d := range r.Devices {
			had[d.Key] = true
		}
	}
	return had
}
