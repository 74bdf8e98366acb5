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
	type pair struct{ from, to int32 }
	weights := map[pair]int64{}
	for i, d := range devices {
		from := int32(i) //nolint:gosec // as above
		for _, l := range d.Links {
			if to, ok := index[inventory.Key{Backend: d.Backend, ID: l.Peer}]; ok && to != from {
				weights[pair{from, to}] = max(weights[pair{from, to}], Weight(l))
			}
		}
	}
	for p, there := range weights {
		back, ok := weights[pair{p.to, p.from}]
		if !ok || p.from > p.to {
			continue
		}
		w := min(there, back)
		g.edges = append(g.edges, edge{p.from, p.to, w})
		g.neighbors[p.from] = append(g.neighbors[p.from], neighbor{p.to, w})
		g.neighbors[p.to] = append(g.neighbors[p.to], neighbor{p.from, w})
	}
	slices.SortFunc(g.edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	for _, n := range g.neighbors {
		slices.SortFunc(n, func(x, y neighbor) int { return cmp.Compare(x.device, y.device) })
	}
	return g
}

// weight is that of a pair of different devices; 0 if there is no link both ways.
func (g *graph) weight(a, b int32) int64 {
	n := g.neighbors[a]
	if i, ok := slices.BinarySearchFunc(n, b, func(x neighbor, b int32) int { return cmp.Compare(x.device, b) }); ok {
		return n[i].weight
	}
	return 0
}
