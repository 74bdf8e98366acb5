package topology

import (
	"slices"
)

// exactOrder is the largest number of units that Order arranges by Choose.
const exactOrder = 16

// Order returns the IDs of all units such that a client which takes the first free ones, as the
// scheduler does for dynamic resource allocation, gets units with good links: the first 2, 4, 8 and
// so on are those that Choose prefers, and so are the next. More than 16 units are arranged by
// groups (see Groups); without groups they are sorted by ID. Health does not matter.
func (t *Topology) Order() []string {
	t = &Topology{shape: t.shape, healthy: make([]bool, len(t.units))}
	ids := make([]string, len(t.units))
	for i, u := range t.units {
		t.healthy[i], ids[i] = true, u.ID
	}
	if len(ids) <= exactOrder {
		return t.halves(ids)
	}
	all, ok := t.Groups()
	if !ok {
		return ids
	}
	return all.order(t)
}

// order returns the units of the group, those of its parts first.
func (g *Group) order(t *Topology) (ids []string) {
	for i := range g.Groups {
		ids = append(ids, g.Groups[i].order(t)...)
	}
	if len(g.Units) <= exactOrder {
		return append(ids, t.halves(g.Units)...)
	}
	return append(ids, g.Units...)
}

// halves returns the units with their best subset, of the greatest size that is a power of two and
// leaves some, first. Both parts are arranged in the same way.
func (t *Topology) halves(ids []string) []string {
	if len(ids) <= 2 {
		return ids
	}
	size := 1
	for size*2 < len(ids) {
		size *= 2
	}
	best := t.Choose(Request{Available: ids, Size: size}).IDs
	rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(best, id) })
	return append(t.halves(best), t.halves(rest)...)
}
