package topology

import (
	"cmp"
	"math/bits"
	"slices"
)

// LinkGroup is devices of which each is linked to all others.
type LinkGroup struct {
	// Level is the least points of a pair's better link: of its direct link or, without one, of its
	// path. With a direct link the path makes no difference, as the devices do not use it.
	Level int64
	// Devices are the IDs of the devices, sorted.
	Devices []string
}

// GroupSizes returns the sizes of the link groups that are made for claims.
func GroupSizes() [3]int { return [...]int{2, 4, 8} }

// LinkGroups returns groups of size or more devices, each device in one of them at most: any devices
// of a group are fully linked, at the best level at which a device of it is in so many. A group is as
// large as it can be, so that a claim has a choice.
//
//	level  the best first; at each of them:
//	       devices that links of the level or better join ──► all of them are linked to each other ──►
//	           those that are in no group yet are a group
//	       └─► a mesh of 16 devices or fewer ──► the largest linked part of those that are in no group
//	           yet, on the fewest NUMA nodes, with the best links, is a group; so on with the rest
//
// A group of fewer than size is none. Health does not matter. Where the links are a hierarchy, and on a
// DGX-1, the loss of a device (or of its links) leaves those together that were together, unless fewer
// than size are left of its own group. In another mesh the other groups may change.
func (t *Topology) LinkGroups(size int) (groups []LinkGroup) {
	var levels []int32
	for _, near := range t.graph {
		for _, n := range near {
			if !slices.Contains(levels, n.level) { // there are few kinds of links
				levels = append(levels, n.level)
			}
		}
	}
	slices.SortFunc(levels, func(a, b int32) int { return cmp.Compare(b, a) })
	grouped := make([]bool, len(t.devices))
	for _, level := range levels {
		for _, part := range t.joined(level) {
			for _, devices := range t.cliques(part, grouped, level, size) {
				group := LinkGroup{Level: int64(level)}
				for _, d := range devices {
					grouped[d] = true
					group.Devices = append(group.Devices, t.devices[d].ID)
				}
				slices.Sort(group.Devices)
				if len(devices) >= size {
					groups = append(groups, group)
				}
			}
		}
	}
	return groups
}

// Level returns the least points of a pair's better link among the devices of units, as the level of a
// [LinkGroup]; 0 if a pair is not linked, or if there is no pair.
func (t *Topology) Level(ids []string) int64 {
	least := int64(noLink)
	for i, a := range ids {
		for _, b := range ids[:i] {
			x, known := t.index[a]
			y, also := t.index[b]
			if !known || !also {
				return 0
			}
			n := t.graph.find(t.device[x], t.device[y])
			if n == nil {
				return 0
			}
			least = min(least, int64(n.level))
		}
	}
	if least == noLink {
		return 0
	}
	return least
}

// joined divides the devices into those that links of a level or better join.
func (s *shape) joined(level int32) (parts [][]int32) {
	seen := make([]bool, len(s.devices))
	for d := range seen {
		if seen[d] {
			continue
		}
		seen[d] = true
		part := []int32{int32(d)} //nolint:gosec // bounded by the units
		for i := 0; i < len(part); i++ {
			for _, n := range s.graph[part[i]] {
				if n.level >= level && !seen[n.device] {
					seen[n.device] = true
					part = append(part, n.device)
				}
			}
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	return parts
}

// cliques returns the groups of the devices that links of a level or better join.
func (s *shape) cliques(devices []int32, grouped []bool, level int32, size int) [][]int32 {
	if len(devices) < size {
		return nil
	}
	pairs := 0
	for _, d := range devices {
		for _, n := range s.graph[d] {
			if n.level >= level {
				pairs++
			}
		}
	}
	isComplete := pairs == len(devices)*(len(devices)-1)
	devices = slices.DeleteFunc(devices, func(d int32) bool { return grouped[d] })
	switch {
	case isComplete:
		return [][]int32{devices}
	case len(devices) > maxTable:
		return nil
	}
	return s.mesh(devices, level, size)
}

// mesh returns disjoint groups of size or more of maxTable devices or fewer, each linked to all others
// of its group at a level or better.
func (s *shape) mesh(devices []int32, level int32, size int) (groups [][]int32) {
	linked := make([]uint32, len(devices))
	for i, a := range devices {
		for j, b := range devices {
			if n := s.graph.find(a, b); n != nil && n.level >= level {
				linked[i] |= 1 << j
			}
		}
	}
	var all []clique
	isClique := make([]bool, 1<<len(devices))
	isClique[0] = true
	for set := uint32(1); set < 1<<len(devices); set++ {
		first, rest := bits.TrailingZeros32(set), set&(set-1)
		isClique[set] = isClique[rest] && rest&^linked[first] == 0
		if isClique[set] && bits.OnesCount32(set) >= size {
			all = append(all, s.newClique(devices, set))
		}
	}
	slices.SortStableFunc(all, clique.compare)
	used := uint32(0)
	for _, c := range all {
		if c.set&used == 0 {
			used |= c.set
			groups = append(groups, c.devices)
		}
	}
	return groups
}

// clique is devices of a mesh that are linked to each other; set has a bit for each.
type clique struct {
	set     uint32
	devices []int32
	nodes   int
	links   int64
}

func (s *shape) newClique(devices []int32, set uint32) clique {
	c, nodes := clique{set: set}, uint64(0)
	for rest := set; rest != 0; rest &= rest - 1 {
		d := devices[bits.TrailingZeros32(rest)]
		for _, before := range c.devices {
			c.links += s.graph.value(d, before)
		}
		nodes |= s.numa[d]
		c.devices = append(c.devices, d)
	}
	c.nodes = bits.OnesCount64(nodes)
	return c
}

// compare is below 0 if c is the better group.
func (c clique) compare(d clique) int {
	return cmp.Or(cmp.Compare(len(d.devices), len(c.devices)), cmp.Compare(c.nodes, d.nodes), cmp.Compare(d.links, c.links), slices.Compare(c.devices, d.devices))
}
