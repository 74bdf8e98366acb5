package topology

import (
	"cmp"
	"context"
	"slices"
)

// Explanation is a choice, and the best other one.
type Explanation struct {
	Result
	// RunnerUp is the best of all other sets of this size; nil if there is none. If it
	// is as good, the order of IDs has decided.
	RunnerUp *Result
	// Equal: the runner-up is as good in every part.
	Equal bool
	// Partial: there was no time to look at all other sets.
	Partial bool
}

// Explain answers a request as Choose does, and finds the best other answer: that
// lacks one of the chosen units, and each is tried, until ctx ends. It takes as many
// times as long.
func (t *Topology) Explain(ctx context.Context, r Request) Explanation {
	e := Explanation{Result: t.Choose(r)}
	if e.Method == Order && t.options.Policy != None {
		return e // it is all there is
	}
	for _, id := range e.IDs {
		if slices.Contains(r.Must, id) {
			continue
		}
		if e.Partial = ctx.Err() != nil; e.Partial {
			break
		}
		other := t.without(r, id)
		if other.Missing == e.Missing && (e.RunnerUp == nil || t.better(other, *e.RunnerUp)) {
			e.RunnerUp = &other
		}
	}
	e.Equal = e.RunnerUp != nil && !t.better(e.Result, *e.RunnerUp)
	return e
}

// better compares results of requests with the same units available.
func (t *Topology) better(a, b Result) bool {
	return slices.CompareFunc(t.Parts(a), t.Parts(b), Part.Compare) > 0
}

// Aspect names a part of a score.
type Aspect string

// The aspects, with the numbers that the package comment gives them.
const (
	// PhysicalDevices is [Score].Physical (1 and 9).
	PhysicalDevices Aspect = "physicalDevices"
	// PairsTogether is [Score].Together (2).
	PairsTogether Aspect = "pairsTogether"
	// RepeatedDevices is [Score].Repeats (3).
	RepeatedDevices Aspect = "repeatedDevices"
	// SumOfLinks is [Score].Links (4).
	SumOfLinks Aspect = "sumOfLinks"
	// WeakestLink is [Score].Weakest (5).
	WeakestLink Aspect = "weakestLink"
	// NUMANodes is [Score].NUMANodes (6).
	NUMANodes Aspect = "numaNodes"
	// LoadOfDevices is [Score].Load (7 and 10).
	LoadOfDevices Aspect = "load"
	// EightsLeft, FoursLeft, PairsLeft and NearPairsLeft are the fields of [Left] (8).
	EightsLeft    Aspect = "eightsLeft"
	FoursLeft     Aspect = "foursLeft"
	PairsLeft     Aspect = "pairsLeft"
	NearPairsLeft Aspect = "nearPairsLeft"
)

// Part is a part of a score.
type Part struct {
	Aspect Aspect
	Value  int64
	// Less is better; else more is.
	Less bool
}

// Compare is above 0 where p is better than q, the same part of another result's score,
// and below where it is worse.
func (p Part) Compare(q Part) int {
	x, y := p.Value, q.Value
	if p.Aspect == WeakestLink { // no pair at all is better than any link
		if x < 0 {
			x = noLink
		}
		if y < 0 {
			y = noLink
		}
	}
	if p.Less {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(x, y)
}

// Parts are those that are compared of a result, in this order.
func (t *Topology) Parts(r Result) []Part {
	s, left := r.Score, leftParts(r.Left)
	links := []Part{{SumOfLinks, s.Links, false}, {WeakestLink, s.Weakest, false}}
	if t.options.WeakestFirst {
		slices.Reverse(links)
	}
	links = append(links, Part{NUMANodes, int64(s.NUMANodes), true})
	physical, together := Part{PhysicalDevices, int64(s.Physical), true}, Part{PairsTogether, s.Together, true}
	repeats, load := Part{RepeatedDevices, s.Repeats, true}, Part{LoadOfDevices, s.Load, true}
	switch t.options.Policy {
	case Spread:
		physical.Less = false
		return slices.Concat([]Part{physical, together, repeats}, links, []Part{load}, left)
	case Pack:
		together.Less, repeats.Less, load.Less = false, false, false
		return slices.Concat([]Part{physical, together, repeats}, links, []Part{load}, left)
	case None:
		return nil
	}
	if t.replicas {
		return slices.Concat([]Part{repeats}, links, []Part{load, physical})
	}
	load.Less = false
	return slices.Concat(links, left, []Part{physical, load})
}

// leftParts is what a choice leaves behind, as parts of its score.
func leftParts(l Left) []Part {
	return []Part{
		{EightsLeft, int64(l.Eights), false}, {FoursLeft, int64(l.Fours), false},
		{PairsLeft, int64(l.Pairs), false}, {NearPairsLeft, int64(l.Near), false},
	}
}
