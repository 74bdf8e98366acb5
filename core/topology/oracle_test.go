package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// oracle is the objective as the package comment has it, written again in the most
// direct way.
type oracle struct {
	units   []Unit
	options Options
	// withoutLeft leaves out what remains, as a search does.
	withoutLeft bool
	goals       map[int]oracleGoal
	packed      map[[2]uint32]int64
}

type oracleGoal struct {
	weight int64
	one    bool
}

func newOracle(units []Unit, o Options) *oracle {
	b := &oracle{units: slices.Clone(units), options: o, goals: map[int]oracleGoal{}, packed: map[[2]uint32]int64{}}
	slices.SortFunc(b.units, func(x, y Unit) int { return cmp.Compare(x.ID, y.ID) })
	for _, size := range []int{2, 4, 8} {
		for set := range uint32(1) << len(b.units) {
			if b.count(set) != size {
				continue
			}
			g, known := b.goals[size]
			w := b.weakest(set)
			switch {
			case !known || w > g.weight:
				g = oracleGoal{w, b.numa(set) == 1}
			case w == g.weight:
				g.one = g.one || b.numa(set) == 1
			}
			b.goals[size] = g
		}
	}
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
	best := int64(0)
	for _, l := range x.Links {
		if l.Peer == y.ID && x.Backend == y.Backend {
			best = max(best, Weight(l))
		}
	}
	return best
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

// packing is how many good sets of a size are in a set, side by side.
func (b *oracle) packing(set uint32, size int) int64 {
	key := [2]uint32{set, uint32(size)}
	if n, ok := b.packed[key]; ok {
		return n
	}
	g, most := b.goals[size], int64(0)
	if b.count(set) >= size {
		for sub := set; sub != 0; sub = (sub - 1) & set {
			if b.count(sub) == size && b.weakest(sub) >= g.weight && (!g.one || b.numa(sub) == 1) {
				most = max(most, 1+b.packing(set&^sub, size))
			}
		}
	}
	b.packed[key] = most
	return most
}

// near is how many pairs of a set are good.
func (b *oracle) near(set uint32) (n int64) {
	for i := range b.units {
		for j := range i {
			if pair := uint32(1)<<i | 1<<j; pair&^set == 0 {
				n += b.packing(pair, 2)
			}
		}
	}
	return n
}

// score is all that is compared, more being better.
func (b *oracle) score(set, remain uint32) []int64 {
	device := func(u Unit) string { return u.Device.String() }
	part := func(u Unit) string { return b.physical(u.Device) }
	repeats := sumPairs(b.by(set, device))
	parts := b.by(set, part)
	links := []int64{b.links(set), b.weakest(set)}
	if b.options.WeakestFirst {
		slices.Reverse(links)
	}
	all := uint32(1)<<len(b.units) - 1
	replicas := sumPairs(b.by(all, device)) > 0
	load := func(f func(Unit) string) (n int64) {
		for _, x := range b.by(all&^remain|set, f) {
			n += x * x
		}
		return n
	}
	middle := append(links, -int64(b.numa(set)))
	switch {
	case b.options.Policy == Spread:
		middle = append(middle, -load(part))
	case b.options.Policy == Pack:
		middle = append(middle, load(part))
	case replicas:
		middle = append(middle, -load(device))
	}
	if !replicas && !b.withoutLeft {
		for _, size := range []int{8, 4, 2} {
			middle = append(middle, b.packing(remain&^set, size))
		}
		middle = append(middle, b.near(remain&^set))
	}
	switch b.options.Policy {
	case Spread:
		return append([]int64{int64(len(parts)), -sumPairs(parts), -repeats}, middle...)
	case Pack:
		return append([]int64{-int64(len(parts)), sumPairs(parts), repeats}, middle...)
	}
	score := append([]int64{-repeats}, middle...)
	score = append(score, -int64(len(parts)))
	if replicas {
		return score
	}
	return append(score, load(part))
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
