package topology

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// edge is a link both ways, with the lesser weight of the two.
type edge struct {
	a, b   int32 // devices; a < b
	weight int64
}

// neighbor is one end of an edge.
type neighbor struct {
	device int32
	weight int64
}

// graph is the devices and the links among them. It never changes.
type graph struct {
	// neighbors are sorted by device.
	neighbors [][]neighbor
	// edges are sorted by weight, the greatest first, then by devices.
	edges []edge
}

// newGraph has the links that lead both ways between devices of the list. Of
// several in one direction the best counts.
func newGraph(devices []*inventory.Device) *graph {
	g := &graph{neighbors: make([][]neighbor, len(devices))}
	index := make(map[inventory.Key]int32, len(devices))
	for i, d := range devices {
		index[d.Key] = int32(i) //nolint:gosec // bounded by the units of a resource
	}
	one := make([][]neighbor, len(devices)) // one way
	for i, d := range devices {
		for _, l := range d.Links {
			if to, ok := index[inventory.Key{Backend: d.Backend, ID: l.Peer}]; ok && int(to) != i {
				one[i] = append(one[i], neighbor{to, Weight(l)})
			}
		}
		slices.SortFunc(one[i], func(x, y neighbor) int {
			return cmp.Or(cmp.Compare(x.device, y.device), cmp.Compare(y.weight, x.weight))
		})
		one[i] = slices.CompactFunc(one[i], func(x, y neighbor) bool { return x.device == y.device })
	}
	for i := range one {
		from := int32(i) //nolint:gosec // as above
		for _, n := range one[i] {
			if n.device < from {
				continue
			}
			if back := find(one[n.device], from); back > 0 {
				w := min(n.weight, back)
				g.edges = append(g.edges, edge{from, n.device, w})
				g.neighbors[from] = append(g.neighbors[from], neighbor{n.device, w})
				g.neighbors[n.device] = append(g.neighbors[n.device], neighbor{from, w})
			}
		}
	}
	slices.SortFunc(g.edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	return g
}

// weight is that of a pair of different devices; 0 if there is no link both ways.
func (g *graph) weight(a, b int32) int64 { return find(g.neighbors[a], b) }

// find is the weight of a device among some that are sorted; 0 if it is not there.
func find(among []neighbor, device int32) int64 {
	i, ok := slices.BinarySearchFunc(among, device, func(x neighbor, d int32) int { return cmp.Compare(x.device, d) })
	if !ok {
		return 0
	}
	return among[i].weight
}
