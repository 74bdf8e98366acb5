package topology

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sameParts compares all that is told of two choices.
func sameParts(t *Topology, a, b Result) bool {
	return slices.EqualFunc(t.Parts(a), t.Parts(b), func(x, y Part) bool { return x.Compare(y) == 0 })
}

// Verifies that on hierarchies of up to 16 units, more than brute force can do, the tree
// and the comparison of all sets find equally good choices.
func TestEnginesAgree(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		units := drawUnits(t, maxSubset)
		options := drawOptions(t)
		tree, sets := Prepare(units, options), Prepare(units, options)
		if tree.tree == nil {
			return
		}
		sets.subsets, sets.tree = sets.newSubsets(), nil
		for range 8 {
			r := drawRequest(t, units)
			a, b := tree.Choose(r), sets.Choose(r)
			if !sameParts(tree, a, b) {
				t.Fatalf("%+v of %+v: %s has %+v and %+v, %s %+v and %+v", r, options, a.Method, a.Score, a.Left, b.Method, b.Score, b.Left)
			}
			compared++
		}
	})
	if compared == 0 {
		t.Error("no machine was a hierarchy")
	}
}

// Verifies that what a search tells is so, by what the tree finds: that nothing is better
// if it is exact, and else that the best links are within the bound.
func TestBoundHolds(t *testing.T) {
	exact, bounded := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		units := drawUnits(t, 48)
		options := drawOptions(t)
		// The time is up after so many looks at the clock.
		options.TimeLimit = time.Duration(rapid.SampledFrom([]int{1, 10, 100}).Draw(t, "looks"))
		clock := time.Time{}
		options.Now = func() time.Time {
			clock = clock.Add(1)
			return clock
		}
		tree, search := Prepare(units, options), Prepare(units, options)
		if tree.tree == nil {
			return
		}
		clusters, _ := tree.graph.clusters()
		tree.goals = nil
		tree.tree = tree.newTree(clusters)
		search.tree, search.goals = nil, nil
		for range 4 {
			r := drawRequest(t, units)
			best, got := tree.Choose(r), search.Choose(r)
			if got.Method != Search {
				continue
			}
			if got.Exact {
				exact++
				if !sameParts(tree, best, got) {
					t.Fatalf("%+v of %+v: best is %+v, found %+v", r, options, best.Score, got.Score)
				}
				continue
			}
			bounded++
			alike := best.Score.Repeats == got.Score.Repeats && (options.Policy == BestLinks ||
				best.Score.Physical == got.Score.Physical && best.Score.Together == got.Score.Together)
			if alike && best.Score.Links > got.Score.Links+got.Missed {
				t.Fatalf("%+v of %+v: the best links are %d, found %d, and %d at most are missed", r, options, best.Score.Links, got.Score.Links, got.Missed)
			}
		}
	})
	if exact == 0 || bounded == 0 {
		t.Errorf("%d choices were exact, %d bounded", exact, bounded)
	}
}
