package topology

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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
	if got.Method == Enumeration {
		checkLowest(t, b, got, r, want)
	}
	if !got.Exact {
		t.Fatalf("%s is not exact", got.Method)
	}
	checkScore(t, b, got, set, open)
	if !b.withoutLeft {
		checkRunnerUp(t, topology, b, r, set)
	}
}

// checkLowest wants no set with lower IDs to be as good.
func checkLowest(t *rapid.T, b *oracle, got Result, r Request, score []int64) {
	open, must := b.set(r.Available), b.set(r.Must)
	for set := range uint32(1) << len(b.units) {
		if set&must == must && set&^open == 0 && b.count(set) == r.Size &&
			slices.Compare(ids(b.list(set)), got.IDs) < 0 && slices.Compare(b.score(set, open), score) == 0 {
			t.Fatalf("chose %v, as good as %v", got.IDs, ids(b.list(set)))
		}
	}
}

// checkRunnerUp compares the runner-up with the best of all other sets.
func checkRunnerUp(t *rapid.T, topology *Topology, b *oracle, r Request, chosen uint32) {
	e := topology.Explain(context.Background(), r)
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
	devices := b.by(set, func(u Unit) string { return u.Device.String() })
	if s.Links != b.links(set) || s.Weakest != weakest || s.NUMANodes != b.numa(set) ||
		s.Physical != len(parts) || s.Devices != len(devices) || s.Repeats != sumPairs(devices) || s.Together != sumPairs(parts) {
		t.Fatalf("score of %v is told as %+v; links %d, weakest %d, %d NUMA nodes, %d physical devices",
			got.IDs, s, b.links(set), weakest, b.numa(set), len(parts))
	}
	if got.Left.Units != b.count(open&^set) {
		t.Fatalf("%d are left, told %+v", b.count(open&^set), got.Left)
	}
	if want := b.near(open &^ set); got.Left.Near >= 0 && int64(got.Left.Near) != want {
		t.Fatalf("%d good pairs are left, told %d", want, got.Left.Near)
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
		if rapid.Bool().Draw(t, "with a ceiling") {
			clusters, _ := topology.graph.clusters()
			topology.ceiling = topology.newCeiling(clusters)
		}
		for range 4 {
			compareWithBrute(t, topology, b, drawRequest(t, units))
		}
	})
}

// The search finds the best without a good choice to begin with.
func TestBruteForceExplore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 9), drawOptions(t)
		options.Now = still
		b := newOracle(units, options)
		b.withoutLeft = true
		topology := Prepare(units, options)
		topology.goals = nil
		for range 4 {
			r := drawRequest(t, units)
			if r.Size == len(r.Must) {
				continue
			}
			c := &call{}
			topology.read(c, r)
			k, w := topology.searcher(), &c.search
			w.start(topology.shape, k, c, r.Size)
			w.explore()
			for i, x := range w.best {
				c.markUnits(k.all[i].units, x)
			}
			set := uint32(0)
			for u, state := range c.state {
				if state&chosen != 0 {
					set |= 1 << u
				}
			}
			open, must := b.set(r.Available), b.set(r.Must)
			want := b.best(open, must, r.Size)
			if score := b.score(set, open); set&must != must || slices.Compare(score, want) != 0 {
				t.Fatalf("found %b of %+v with %v, best is %v", set, r, score, want)
			}
		}
	})
}
