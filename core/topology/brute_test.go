package topology

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

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

func (b *oracle) physical(d *inventory.Device) string { return cmp.Or(d.Parent, d.ID) }

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

// drawLinks links devices at random, or as a hierarchy.
func drawLinks(t *rapid.T, devices []*inventory.Device) {
	palette := rapid.SliceOfN(rapid.SampledFrom([]inventory.Link{
		{Kind: "nvlink", Count: 1}, {Kind: "nvlink", Count: 2}, {Kind: "xgmi", Count: 1, Distance: 15}, {Kind: "pcie_switch"},
		{Kind: "same_numa"}, {Kind: "cross_numa"}, {Kind: "other", Distance: 50}, {Kind: "same_device", Distance: 13}, {},
	}), 1, 3).Draw(t, "palette")
	shape := rapid.SampledFrom([]string{"hierarchy", "random", "broken"}).Draw(t, "links")
	pick := rapid.IntRange(0, len(palette)-1)
	path := make([][3]int, len(devices))
	for i := range path {
		for level := range path[i] {
			path[i][level] = rapid.IntRange(0, 1).Draw(t, "path")
		}
	}
	slices.SortFunc(palette, func(a, b inventory.Link) int { return cmp.Compare(Weight(a), Weight(b)) })
	for i, a := range devices {
		for j, b := range devices {
			if i == j {
				continue
			}
			var l inventory.Link
			if shape == "random" {
				if i > j {
					continue
				}
				l = palette[pick.Draw(t, "kind")]
			} else {
				depth := 0
				for depth < 3 && path[i][depth] == path[j][depth] {
					depth++
				}
				l = palette[min(depth, len(palette)-1)]
				if shape == "broken" && rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
					continue
				}
			}
			if l.Kind == "" {
				continue
			}
			l.Peer = b.ID
			a.Links = append(a.Links, l)
			if shape == "random" {
				if rapid.IntRange(0, 9).Draw(t, "other way") == 0 {
					l = palette[pick.Draw(t, "back")]
				}
				l.Peer = a.ID
				b.Links = append(b.Links, l)
			}
		}
	}
}

// drawUnits makes a machine with at most n units.
func drawUnits(t *rapid.T, n int) []Unit {
	kind := rapid.SampledFrom([]string{"devices", "partitions", "replicas"}).Draw(t, "kind")
	count := rapid.IntRange(1, n).Draw(t, "devices")
	replicas := 1
	if kind == "replicas" {
		count = rapid.IntRange(1, max(1, n/2)).Draw(t, "replicated")
		replicas = rapid.IntRange(1, n/count).Draw(t, "replicas")
	}
	numa := rapid.SampledFrom([]string{"none", "halves", "pairs", "random", "sets"}).Draw(t, "NUMA")
	var devices []*inventory.Device
	for i := range count {
		d := &inventory.Device{Key: inventory.Key{Backend: "b", ID: fmt.Sprintf("d%02d", i)}}
		switch numa {
		case "halves":
			d.NUMANodes = []int{i * 2 / count}
		case "pairs":
			d.NUMANodes = [][]int{{0, 1}, {2}}[i*2/count]
		case "random":
			if node := rapid.IntRange(-1, 2).Draw(t, "node"); node >= 0 {
				d.NUMANodes = []int{node, node}[:1+i%2] // the same node twice is that node
			}
		case "sets":
			d.NUMANodes = rapid.SampledFrom([][]int{{0}, {1}, {0, 1}, {1, 2}, nil}).Draw(t, "nodes")
		}
		if kind == "partitions" {
			if parent := rapid.IntRange(-1, 3).Draw(t, "parent"); parent >= 0 {
				d.Parent = fmt.Sprintf("p%d", parent)
			}
		}
		devices = append(devices, d)
	}
	drawLinks(t, devices)
	var units []Unit
	for _, d := range devices {
		for r := range replicas {
			id := d.ID
			if replicas > 1 {
				id = fmt.Sprintf("%s::%d", d.ID, r)
			}
			units = append(units, Unit{ID: id, Device: d, Healthy: true})
		}
	}
	return units
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Policy:       rapid.SampledFrom([]Policy{BestLinks, Spread, Pack}).Draw(t, "policy"),
		WeakestFirst: rapid.Bool().Draw(t, "weakest first"),
	}
}

// drawRequest asks for some of what is available.
func drawRequest(t *rapid.T, units []Unit) Request {
	var r Request
	for _, u := range units {
		switch rapid.SampledFrom([]string{"free", "free", "free", "free", "used", "must"}).Draw(t, "state") {
		case "free":
			r.Available = append(r.Available, u.ID)
		case "must":
			r.Available = append(r.Available, u.ID)
			if len(r.Must) < 2 {
				r.Must = append(r.Must, u.ID)
			}
		}
	}
	r.Size = rapid.IntRange(len(r.Must), max(len(r.Must), len(r.Available))).Draw(t, "size")
	return r
}

// compareWithBrute asks a topology, and compares with all there is.
func compareWithBrute(t *rapid.T, topology *Topology, b *oracle, r Request) {
	got := topology.Choose(r)
	if len(got.IDs) != r.Size || got.Missing != 0 {
		t.Fatalf("%d of %d chosen", len(got.IDs), r.Size)
	}
	set, open, must := b.set(got.IDs), b.set(r.Available), b.set(r.Must)
	if set&must != must || set&^open != 0 || b.count(set) != r.Size {
		t.Fatalf("%v of %+v", got.IDs, r)
	}
	want := b.best(open, must, r.Size)
	if score := b.score(set, open); slices.Compare(score, want) != 0 {
		t.Fatalf("%s chose %v with %v, best is %v", got.Method, got.IDs, score, want)
	}
	if !got.Exact {
		t.Fatalf("%s is not exact", got.Method)
	}
	checkScore(t, b, got, set, open)
	if !b.withoutLeft {
		checkRunnerUp(t, topology, b, r, set)
	}
}

// checkRunnerUp compares the runner-up with the best of all other sets.
func checkRunnerUp(t *rapid.T, topology *Topology, b *oracle, r Request, chosen uint32) {
	e := topology.Explain(r)
	open, must := b.set(r.Available), b.set(r.Must)
	var want []int64
	for set := range uint32(1) << len(b.units) {
		if set != chosen && set&must == must && set&^open == 0 && b.count(set) == r.Size {
			if score := b.score(set, open); want == nil || slices.Compare(score, want) > 0 {
				want = score
			}
		}
	}
	if e.RunnerUp == nil {
		if want != nil {
			t.Fatalf("no runner-up, but there is one with %v", want)
		}
		return
	}
	set := b.set(e.RunnerUp.IDs)
	if got := b.score(set, open); set == chosen || slices.Compare(got, want) != 0 {
		t.Fatalf("the runner-up of %v is %v with %v, best is %v", e.IDs, e.RunnerUp.IDs, got, want)
	}
	if equal := slices.Compare(want, b.score(chosen, open)) == 0; e.Equal != equal {
		t.Fatalf("equal is %v", e.Equal)
	}
	checkScore(t, b, *e.RunnerUp, set, open)
}

// checkScore compares what is told of a choice with what is the case.
func checkScore(t *rapid.T, b *oracle, got Result, set, open uint32) {
	s := got.Score
	weakest := b.weakest(set)
	if weakest == noLink {
		weakest = -1
	}
	parts := b.by(set, func(u Unit) string { return b.physical(u.Device) })
	devices := b.by(set, func(u Unit) string { return u.Device.ID })
	if s.Links != b.links(set) || s.Weakest != weakest || s.NUMANodes != b.numa(set) ||
		s.Physical != len(parts) || s.Devices != len(devices) || s.Repeats != sumPairs(devices) || s.Together != sumPairs(parts) {
		t.Fatalf("score of %v is told as %+v; links %d, weakest %d, %d NUMA nodes, %d physical devices",
			got.IDs, s, b.links(set), weakest, b.numa(set), len(parts))
	}
	if got.Left.Units != b.count(open&^set) {
		t.Fatalf("%d are left, told %+v", b.count(open&^set), got.Left)
	}
	for size, n := range map[int]int{2: got.Left.Pairs, 4: got.Left.Fours, 8: got.Left.Eights} {
		if want := b.packing(open&^set, size); n >= 0 && int64(n) != want {
			t.Fatalf("%d good sets of %d are left, told %d", want, size, n)
		}
	}
}

// Every choice is as good as the best of all sets, on any graph.
func TestBruteForce(t *testing.T) {
	methods := map[Method]int{}
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 12), drawOptions(t)
		b := newOracle(units, options)
		topology := Prepare(units, options)
		for range 4 {
			r := drawRequest(t, units)
			compareWithBrute(t, topology, b, r)
			methods[topology.Choose(r).Method]++
		}
	})
	if methods[Hierarchy] == 0 || methods[Enumeration] == 0 {
		t.Errorf("methods were %v", methods)
	}
}

// The same where sets are too many to compare, but for what is left.
func TestBruteForceSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 12), drawOptions(t)
		options.TimeLimit = 1 << 40
		b := newOracle(units, options)
		b.withoutLeft = true
		topology := Prepare(units, options)
		topology.tree, topology.subsets, topology.goals = nil, nil, nil
		for range 4 {
			compareWithBrute(t, topology, b, drawRequest(t, units))
		}
	})
}
