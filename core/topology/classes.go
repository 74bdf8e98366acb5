package topology

import (
	"cmp"
	"slices"
)

// classes are units that stand for each other: replicas of one device, or devices
// with the same links to all others, on the same NUMA nodes and physical device. How
// many of each are chosen says everything.
type classes struct {
	all []class
	// of is the class of every unit.
	of []int32
}

type class struct {
	units  []int32
	device int32 // the first of them
	numa   int32
	// physical is -1 if each is one of its own.
	physical int32
	// inner is the weight among them; -1 for replicas of one device.
	inner int64
	// near are the linked classes, the best first.
	near []neighbor
}

// newClasses finds the classes of a topology.
func (s *shape) newClasses() *classes {
	k := &classes{of: make([]int32, len(s.units))}
	inPart := make([]int, s.physicals)
	for _, p := range s.physical {
		inPart[p]++
	}
	byDevice := make([]int32, len(s.devices))
	for i := range byDevice {
		byDevice[i] = -1
	}
	type key struct{ numa, physical int32 }
	alike := map[key][]int32{}
	for u, d := range s.device {
		c := byDevice[d]
		if c < 0 {
			at := key{s.numa[d], s.physical[d]}
			if inPart[at.physical] == 1 && !s.replicas {
				at.physical = -1
			}
			c = k.find(s, d, alike[at])
			if c < 0 {
				c = int32(len(k.all)) //nolint:gosec // bounded by the units
				k.all = append(k.all, class{device: d, numa: at.numa, physical: at.physical, inner: -1})
				alike[at] = append(alike[at], c)
			} else if k.all[c].inner < 0 {
				k.all[c].inner = s.graph.weight(d, k.all[c].device)
			}
			byDevice[d] = c
		}
		k.all[c].units = append(k.all[c].units, int32(u)) //nolint:gosec // bounded by the units
		k.of[u] = c
	}
	for i := range k.all {
		k.all[i].near = k.neighbors(s, int32(i), byDevice) //nolint:gosec // bounded by the units
	}
	return k
}

// find is the class among some whose links a device has; -1 if there is none.
// Replicas are in the class of their device alone.
func (k *classes) find(s *shape, d int32, among []int32) int32 {
	if s.replicas {
		return -1
	}
	for _, c := range among[:min(len(among), 64)] {
		if s.graph.alike(d, k.all[c].device) {
			return c
		}
	}
	return -1
}

// alike reports whether two devices have the same links to all others.
func (g *graph) alike(a, b int32) bool {
	x, y := g.neighbors[a], g.neighbors[b]
	for {
		for len(x) > 0 && x[0].device == b {
			x = x[1:]
		}
		for len(y) > 0 && y[0].device == a {
			y = y[1:]
		}
		if len(x) == 0 || len(y) == 0 {
			return len(x) == len(y)
		}
		if x[0] != y[0] {
			return false
		}
		x, y = x[1:], y[1:]
	}
}

func (k *classes) neighbors(s *shape, i int32, byDevice []int32) []neighbor {
	c := k.all[i]
	seen := map[int32]bool{i: true}
	var near []neighbor
	for _, n := range s.graph.neighbors[c.device] {
		if e := byDevice[n.device]; !seen[e] {
			seen[e] = true
			near = append(near, neighbor{e, n.weight})
		}
	}
	if c.inner > 0 {
		near = append(near, neighbor{i, c.inner})
	}
	slices.SortFunc(near, func(x, y neighbor) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.device, y.device))
	})
	return near
}
