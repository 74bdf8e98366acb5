package topology

import (
	"cmp"
	"maps"
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
// several in one direction the best counts. There may be a link for each pair of some
// thousand devices: so the work is in proportion to the links, but for the sorting of
// their different weights.
func newGraph(devices []*inventory.Device) *graph {
	g := &graph{neighbors: make([][]neighbor, len(devices))}
	one := oneWay(devices)
	// Links back are looked for in the order of devices, so each list is gone through once.
	backs := slices.Clone(one)
	links := 0
	for i := range one {
		links += len(one[i])
		g.neighbors[i] = make([]neighbor, 0, len(one[i]))
	}
	g.edges = make([]edge, 0, links/2)
	for i := range one {
		from := int32(i) //nolint:gosec // bounded by the units of a resource
		for _, n := range one[i] {
			back := backs[n.device]
			for len(back) > 0 && back[0].device < from {
				back = back[1:]
			}
			backs[n.device] = back
			if n.device < from || len(back) == 0 || back[0].device != from {
				continue
			}
			w := min(n.weight, back[0].weight)
			g.edges = append(g.edges, edge{from, n.device, w})
			g.neighbors[from] = append(g.neighbors[from], neighbor{n.device, w})
			g.neighbors[n.device] = append(g.neighbors[n.device], neighbor{from, w})
		}
	}
	g.edges = byWeight(g.edges)
	return g
}

// oneWay are the links of each device to others of the list, sorted by device; the best
// weight of each.
func oneWay(devices []*inventory.Device) [][]neighbor {
	index := make(map[inventory.Key]int32, len(devices))
	for i, d := range devices {
		index[d.Key] = int32(i) //nolint:gosec // bounded by the units of a resource
	}
	all := make([][]neighbor, len(devices))
	best := make([]int64, len(devices)) // by device; 0 if there is no link
	var linked []int32
	for i, d := range devices {
		linked = linked[:0]
		to := int32(-1)
		for _, l := range d.Links {
			key := inventory.Key{Backend: d.Backend, ID: l.Peer}
			// Most lists are in the order of devices.
			if to++; int(to) == i {
				to++
			}
			if int(to) >= len(devices) || devices[to].Key != key {
				found, ok := index[key]
				if !ok || int(found) == i {
					continue
				}
				to = found
			}
			if best[to] == 0 {
				linked = append(linked, to)
			}
			best[to] = max(best[to], Weight(l))
		}
		slices.Sort(linked)
		all[i] = make([]neighbor, len(linked))
		for j, to := range linked {
			all[i][j] = neighbor{to, best[to]}
			best[to] = 0
		}
	}
	return all
}

// byWeight sorts edges by weight, the greatest first, and keeps the order of equals.
func byWeight(edges []edge) []edge {
	ends := map[int64]int{} // where those of a weight go to: first how many they are
	for _, e := range edges {
		ends[e.weight]++
	}
	at := 0
	for _, weight := range slices.Backward(slices.Sorted(maps.Keys(ends))) {
		at, ends[weight] = at+ends[weight], at
	}
	sorted := make([]edge, len(edges))
	for _, e := range edges {
		sorted[ends[e.weight]] = e
		ends[e.weight]++
	}
	return sorted
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
