package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// oracle is the objective as the package comment has it, written again in the most
// direct way.
type oracle struct {
	units   []Unit
	options Options
	// open are the units that are available.
	open uint32
}

func newOracle(units []Unit, o Options) *oracle {
	b := &oracle{units: slices.Clone(units), options: o}
	slices.SortFunc(b.units, func(x, y Unit) int { return cmp.Compare(x.ID, y.ID) })
	return b
}

func (b *oracle) list(set uint32) (out []Unit) {
	for i, u := range b.units {
		if set>>i&1 != 0 {
			out = append(out, u)
		}
	}
	return out
}

func (b *oracle) count(set uint32) int { return len(b.list(set)) }

func (b *oracle) direction(x, y *inventory.Device) int64 {
	best := map[bool]int64{}
	for _, l := range x.Links {
		if l.Peer == y.ID && x.Backend == y.Backend {
			best[l.Direct()] = max(best[l.Direct()], Value(l))
		}
	}
	return best[true] + best[false]
}

func (b *oracle) weight(x, y *inventory.Device) int64 {
	return min(b.direction(x, y), b.direction(y, x))
}

// each calls for every pair of units.
func (b *oracle) each(set uint32, f func(x, y Unit)) {
	units := b.list(set)
	for i := range units {
		for j := range i {
			f(units[i], units[j])
		}
	}
}

func (b *oracle) links(set uint32) (sum int64) {
	b.each(set, func(x, y Unit) {
		if x.Device.Key != y.Device.Key {
			sum += b.weight(x.Device, y.Device)
		}
	})
	return sum
}

func (b *oracle) weakest(set uint32) int64 {
	least := int64(noLink)
	b.each(set, func(x, y Unit) {
		if x.Device.Key != y.Device.Key {
			least = min(least, b.weight(x.Device, y.Device))
		}
	})
	return least
}

func (b *oracle) nodes(u Unit) map[int]bool {
	nodes := map[int]bool{}
	for _, n := range u.Device.NUMANodes {
		nodes[n] = true
	}
	return nodes
}

func (b *oracle) numa(set uint32) int {
	nodes := map[string]bool{}
	for _, u := range b.list(set) {
		if len(u.Device.NUMANodes) == 0 {
			nodes["unit "+u.ID] = true
		}
		for _, n := range u.Device.NUMANodes {
			nodes[fmt.Sprint(n)] = true
		}
	}
	return len(nodes)
}

// physical is the device that d is a part of: its parent, or what that is a part of if
// it is one of the units itself.
func (b *oracle) physical(d *inventory.Device) string {
	if d.Parent == "" {
		return d.String()
	}
	for _, u := range b.units {
		if u.Device.Key == (inventory.Key{Backend: d.Backend, ID: d.Parent}) {
			return b.physical(u.Device)
		}
	}
	return d.Backend + "/" + d.Parent
}

func (b *oracle) by(set uint32, f func(Unit) string) map[string]int64 {
	counts := map[string]int64{}
	for _, u := range b.list(set) {
		counts[f(u)]++
	}
	return counts
}

func sumPairs(counts map[string]int64) (n int64) {
	for _, x := range counts {
		n += x * (x - 1) / 2
	}
	return n
}

// score is all that is compared, more being better.
func (b *oracle) score(set, remain uint32) []int64 {
	device := func(u Unit) string { return u.Device.String() }
	part := func(u Unit) string { return b.physical(u.Device) }
	all := uint32(1)<<len(b.units) - 1
	replicas := sumPairs(b.by(all, device)) > 0
	parts, repeats := b.by(set, part), sumPairs(b.by(set, device))
	links := []int64{b.links(set), b.weakest(set)}
	if b.options.WeakestFirst {
		slices.Reverse(links)
	}
	links = append(links, -int64(b.numa(set)))
	load := func(f func(Unit) string) (n int64) {
		busy := b.by(all&^remain, f)
		for _, u := range b.list(set) {
			n += busy[f(u)]
		}
		return n
	}
	left := b.links(remain &^ set)
	b.each(remain&^set, func(x, y Unit) {
		if nodes := b.nodes(x); len(nodes) > 0 && maps.Equal(nodes, b.nodes(y)) {
			left++
		}
	})
	switch {
	case b.options.Policy == Spread:
		return slices.Concat([]int64{int64(len(parts)), -sumPairs(parts), -repeats}, links, []int64{-load(part), left})
	case b.options.Policy == Pack:
		return slices.Concat([]int64{-int64(len(parts)), sumPairs(parts), repeats}, links, []int64{load(part), left})
	case replicas:
		return slices.Concat([]int64{-repeats}, links, []int64{-load(device), left})
	}
	return slices.Concat(links, []int64{-int64(len(parts)), left, load(part)})
}

// best is the best score of all sets of a size.
func (b *oracle) best(open, must uint32, size int) []int64 {
	var best []int64
	for set := range uint32(1) << len(b.units) {
		if set&must == must && set&^(open|must) == 0 && b.count(set) == size {
			if score := b.score(set, open|must); best == nil || slices.Compare(score, best) > 0 {
				best = score
			}
		}
	}
	return best
}

func (b *oracle) set(ids []string) (set uint32) {
	for i, u := range b.units {
		if slices.Contains(ids, u.ID) {
			set |= 1 << i
		}
	}
	return set
}
