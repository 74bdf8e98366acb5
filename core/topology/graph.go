package topology

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// neighbor is a linked device, and the points of the pair. level is the points of the better of
// the pair's direct link and its path, which are the value together.
type neighbor struct {
	device, level int32
	value         int64
}

// graph has the linked devices of each device, sorted. It never changes.
type graph [][]neighbor

// newGraph returns the pairs of devices with links both ways. A direction has the points of
// its best direct link and of its best path; a pair has the lesser points of its two
// directions.
func newGraph(devices []*inventory.Device) graph {
	index := make(map[inventory.Key]int32, len(devices))
	for i, d := range devices {
		index[d.Key] = int32(i) //nolint:gosec // bounded by the units of a resource
	}
	one := make(graph, len(devices))
	direct, path := make([]int64, len(devices)), make([]int64, len(devices))
	for i, d := range devices {
		for _, l := range d.Links {
			to, ok := index[inventory.Key{Backend: d.Backend, ID: l.Peer}]
			if !ok || int(to) == i {
				continue
			}
			if direct[to]+path[to] == 0 {
				one[i] = append(one[i], neighbor{device: to})
			}
			best := &path[to]
			if l.Direct() {
				best = &direct[to]
			}
			*best = max(*best, Value(l))
		}
		slices.SortFunc(one[i], func(a, b neighbor) int { return cmp.Compare(a.device, b.device) })
		for j, n := range one[i] {
			one[i][j].value = direct[n.device] + path[n.device]
			one[i][j].level = int32(max(direct[n.device], path[n.device])) //nolint:gosec // at most sameDevice
			direct[n.device], path[n.device] = 0, 0
		}
	}
	both := make(graph, len(devices))
	for i := range one {
		from := int32(i) //nolint:gosec // bounded by the units of a resource
		both[i] = make([]neighbor, 0, len(one[i]))
		for _, n := range one[i] {
			if back := one.find(n.device, from); back != nil {
				both[i] = append(both[i], neighbor{n.device, min(n.level, back.level), min(n.value, back.value)})
			}
		}
	}
	return both
}

// value returns the points of a pair of different devices; 0 without a link both ways.
func (g graph) value(a, b int32) int64 {
	if n := g.find(a, b); n != nil {
		return n.value
	}
	return 0
}

// find returns b as a neighbor of a; nil if it is none.
func (g graph) find(a, b int32) *neighbor {
	i, ok := slices.BinarySearchFunc(g[a], b, func(x neighbor, d int32) int { return cmp.Compare(x.device, d) })
	if !ok {
		return nil
	}
	return &g[a][i]
}
