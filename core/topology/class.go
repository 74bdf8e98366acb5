package topology

import (
	"cmp"
	"slices"
)

// class is a set of equivalent units: replicas of one device, or devices with the same
// links to all others, on the same NUMA nodes and physical device. A set of units is
// described by how many of each class are chosen.
type class struct {
	units  []int32
	device int32 // the first of them
	numa   uint64
	place  int32
	// physical is -1 if each unit is a physical device of its own.
	physical int32
	// replicas: the units are replicas of one device, so pairs of them have no link.
	replicas bool
	// inner is the points of a pair of its units.
	inner int64
	// near are the other classes with links to it, sorted.
	near []neighbor
}

// classify finds the classes, sorted by their first units, and the class of every unit.
func (s *shape) classify() {
	s.class = make([]int32, len(s.units))
	inPhysical := make([]int, s.physicals)
	for _, p := range s.physical {
		inPhysical[p]++
	}
	byDevice := make([]int32, len(s.devices))
	for i := range byDevice {
		byDevice[i] = -1
	}
	type at struct{ place, physical int32 }
	alike := map[at][]int32{}
	for u, d := range s.device {
		c := byDevice[d]
		if c < 0 {
			at := at{s.place[d], s.physical[d]}
			if inPhysical[at.physical] == 1 && !s.replicas {
				at.physical = -1
			}
			if c = s.alikeClass(d, alike[at]); c < 0 {
				c = int32(len(s.classes)) //nolint:gosec // bounded by the units
				s.classes = append(s.classes, class{device: d, numa: s.numa[d], place: at.place, physical: at.physical, replicas: s.replicas})
				alike[at] = append(alike[at], c)
			} else {
				s.classes[c].inner = s.graph.value(d, s.classes[c].device)
			}
			byDevice[d] = c
		}
		s.classes[c].units = append(s.classes[c].units, int32(u)) //nolint:gosec // bounded by the units
		s.class[u] = c
	}
	for i := range s.classes {
		c := &s.classes[i]
		for _, n := range s.graph[c.device] {
			c.near = append(c.near, neighbor{byDevice[n.device], n.value})
		}
		slices.SortFunc(c.near, func(a, b neighbor) int { return cmp.Compare(a.device, b.device) })
		c.near = slices.CompactFunc(c.near, func(a, b neighbor) bool { return a.device == b.device })
		c.near = slices.DeleteFunc(c.near, func(n neighbor) bool { return int(n.device) == i })
	}
}

// maxAlike bounds the number of classes of one place with which a device is compared.
const maxAlike = 64

// alikeClass returns the class, among some, with the same links as the device; -1 if there
// is none.
func (s *shape) alikeClass(d int32, among []int32) int32 {
	if s.replicas {
		return -1
	}
	for _, c := range among[:min(len(among), maxAlike)] {
		if s.graph.alike(d, s.classes[c].device) {
			return c
		}
	}
	return -1
}
