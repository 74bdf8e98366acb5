package resource

import "github.com/accelmux/accelmux/core/inventory"

// duplicateID is a device ID that several backends report in one resource.
type duplicateID struct {
	place int
	id    string
}

// idOwners returns the duplicate IDs, each with the backend whose device is in the resource:
// kubelet identifies a device by resource and ID alone. The backend that had the ID in the
// latest table keeps it, so that no backend replaces another's devices; otherwise it is the
// first by name. The caller holds m.mu.
func (m *Mapper) idOwners(snap *inventory.Snapshot, assigned [][]*assignment, t *Table) map[duplicateID]string {
	shared := m.shared(snap, assigned, len(t.Resources))
	if shared == nil {
		return nil
	}
	first := map[duplicateID]string{}
	owners := map[duplicateID]string{}
	had := map[int]map[inventory.Key]bool{}
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			place := m.names.place(assigned[i][j])
			if place < 0 || !shared[place] {
				continue
			}
			at := duplicateID{place, d.ID}
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

// shared returns, by place in the table, which resources have devices of several backends;
// nil if none has. Within one backend IDs are unique.
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

// before returns the devices that the resource had in the latest table.
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
