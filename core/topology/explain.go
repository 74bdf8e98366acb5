package topology

import "slices"

// Explanation is a choice, and the best other one.
type Explanation struct {
	Result
	// RunnerUp is the best of all other sets of this size; nil if there is none. If it
	// is as good, the order of IDs has decided.
	RunnerUp *Result
	// Equal: the runner-up is as good in every part.
	Equal bool
}

// Explain answers a request as Choose does, and finds the best other answer: that
// lacks one of the chosen units, and each is tried. It takes as many times as long.
func (t *Topology) Explain(r Request) Explanation {
	e := Explanation{Result: t.Choose(r)}
	if e.Method == Order && t.options.Policy != None {
		return e // it is all there is
	}
	for _, id := range e.IDs {
		if slices.Contains(r.Must, id) {
			continue
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
	x, y := t.parts(a), t.parts(b)
	return slices.Compare(x[:], y[:]) > 0
}

// parts is what is compared of a result, in this order; more is better.
func (t *Topology) parts(r Result) [11]int64 {
	s, l := r.Score, r.Left
	weakest := s.Weakest
	if weakest < 0 {
		weakest = noLink
	}
	links := [2]int64{s.Links, weakest}
	if t.options.WeakestFirst {
		links = [2]int64{weakest, s.Links}
	}
	parts, together, load := int64(s.Physical), s.Together, s.Load
	left := [4]int64{int64(l.Eights), int64(l.Fours), int64(l.Pairs), int64(l.Near)}
	nodes := -int64(s.NUMANodes)
	switch t.options.Policy {
	case Spread:
		return [11]int64{parts, -together, -s.Repeats, links[0], links[1], nodes, -load, left[0], left[1], left[2], left[3]}
	case Pack:
		return [11]int64{-parts, together, s.Repeats, links[0], links[1], nodes, load, left[0], left[1], left[2], left[3]}
	case None:
		return [11]int64{}
	}
	if t.replicas {
		return [11]int64{-s.Repeats, links[0], links[1], nodes, -load, -parts}
	}
	return [11]int64{links[0], links[1], nodes, left[0], left[1], left[2], left[3], -parts, load}
}
