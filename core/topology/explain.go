package topology

import (
	"cmp"
	"context"
	"slices"
)

// Explanation is a choice, and the best other one.
type Explanation struct {
	Result
	// RunnerUp is the best of all other sets of this size that were found; nil if there is
	// none. If it is equally good, the order of IDs decides. It can be better if the choice
	// is not [Result.Exact].
	RunnerUp *Result
	// Equal reports that the runner-up is as good in every part.
	Equal bool
	// Partial reports that ctx ended before all other sets were tried.
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
		if other.Missing == e.Missing && (e.RunnerUp == nil || better(&other, e.RunnerUp)) {
			e.RunnerUp = &other
		}
	}
	e.Equal = e.RunnerUp != nil && !better(&e.Result, e.RunnerUp) && !better(e.RunnerUp, &e.Result)
	return e
}

// better compares results of requests with the same units available.
func better(a, b *Result) bool { return slices.CompareFunc(a.Parts, b.Parts, Part.Compare) > 0 }

// Part is a part of a score.
type Part struct {
	Aspect Aspect
	// Value is -1 for the weakest link of a set without pairs of different devices.
	Value int64
	// Less is better; else more is.
	Less bool
}

// Compare is above 0 where p is better than q, the same part of another result's score,
// and below where it is worse.
func (p Part) Compare(q Part) int {
	x, y := p.Value, q.Value
	if p.Aspect == WeakestLink { // no pair at all is better than any link
		x, y = x&noLink, y&noLink
	}
	if p.Less {
		x, y = y, x
	}
	return cmp.Compare(x, y)
}
