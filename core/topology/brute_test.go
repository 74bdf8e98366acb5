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
	checkLowest(t, b, got, r, want)
	checkParts(t, b, &got)
	checkRunnerUp(t, topology, b, r, set)
	if left := b.count(open &^ set); got.Left != left {
		t.Fatalf("%d are left, reported %d", left, got.Left)
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
	checkParts(t, b, e.RunnerUp)
}

// checkParts compares what is reported of a choice with what is the case.
func checkParts(t *rapid.T, b *oracle, got *Result) {
	set, open := b.set(got.IDs), b.open
	for i, want := range b.score(set, open) {
		p := got.Parts[i]
		if p.Less {
			p.Value = -p.Value
		}
		if p.Value == -1 && p.Aspect == WeakestLink {
			p.Value = noLink
		}
		if p.Value != want {
			t.Fatalf("%v: %s is %d, want %d", got.IDs, p.Aspect, p.Value, want)
		}
	}
}

// Every choice is as good as the best of all sets, on any graph.
func TestBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 12), drawOptions(t)
		b, topology := newOracle(units, options), Prepare(units, options)
		for range 4 {
			r := drawRequest(t, units)
			b.open = b.set(r.Available)
			compareWithBrute(t, topology, b, r)
		}
	})
}

// checkScored asks a topology without a table for some choices. They have what any choice must
// have, and the score that is reported. worse are those that are not the best of all sets.
func checkScored(t *rapid.T, topology *Topology, b *oracle, units []Unit) (asked, worse int) {
	for range 4 {
		r := drawRequest(t, units)
		b.open = b.set(r.Available)
		got := topology.Choose(r)
		checkAnswer(t, units, r, got)
		checkParts(t, b, &got)
		asked++
		if slices.Compare(b.score(b.set(got.IDs), b.open), b.best(b.open, b.set(r.Must), r.Size)) < 0 {
			worse++
		}
	}
	return asked, worse
}

// TestHierarchy verifies that a choice among the devices of a hierarchy is as good as the
// best of all sets, under any policy.
func TestHierarchy(t *testing.T) {
	all := 0
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 12), drawOptions(t)
		topology := Prepare(units, options)
		if topology.table, topology.tree = nil, topology.newTree(); topology.tree == nil {
			t.Skip("no hierarchy")
		}
		asked, worse := checkScored(t, topology, newOracle(units, options), units)
		if all += asked; worse > 0 {
			t.Fatalf("%d of %d choices are not the best", worse, asked)
		}
	})
	if all < 100 {
		t.Errorf("only %d choices in hierarchies", all)
	}
}

// TestGreedy verifies that nearly all greedy choices are the best, on any graph.
func TestGreedy(t *testing.T) {
	all, notBest := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		units, options := drawUnits(t, 12), drawOptions(t)
		topology := Prepare(units, options)
		topology.table = nil
		asked, worse := checkScored(t, topology, newOracle(units, options), units)
		all, notBest = all+asked, notBest+worse
	})
	if 40*notBest > all {
		t.Errorf("%d of %d greedy choices are not the best", notBest, all)
	}
}
