package topology

import "math"

// operand is what low to high units of a part of a node count for at best.
type operand struct {
	ranks     []rank
	low, high int64
}

func (o *operand) at(x int64) *rank { return &o.ranks[x-o.low] }

// isConcave reports whether each unit more of a part changes how devices are shared by
// as much as the one before at most, seen from best to worst.
func (o operand) isConcave() bool {
	for i := range o.ranks {
		r := &o.ranks[i]
		if r.sharing == math.MinInt64 {
			return false
		}
		if i > 1 && compareSteps(&o.ranks[i-2], &o.ranks[i-1], &o.ranks[i-1], r) < 0 {
			return false
		}
	}
	return true
}

// compareSteps compares how devices are shared only: the step from a to b with that from
// c to d; above 0 if the former is better.
func compareSteps(a, b, c, d *rank) int {
	one, other := b.sharing-a.sharing, d.sharing-c.sharing
	if one == other {
		one, other = b.even-a.even, d.even-c.even
	}
	switch {
	case one > other:
		return 1
	case one < other:
		return -1
	}
	return 0
}

// window is how many of x units can be of b, the rest of a, as x grows one by one.
//
// If each further unit of a, and of b, is no better for how devices are shared than the
// one before, what is best for x+1 is what is best for x and one unit more, of that
// part where it is the better one, and of either where they are equal. So only from first
// to last can be best, as the sharing is compared first. That makes the work for replicas
// that are spread proportional to the units: of two devices, each has about half of x.
type window struct {
	a, b        operand
	concave     bool
	x           int64
	first, last int64
}

func newWindow(a, b operand, concave bool) window {
	return window{a: a, b: b, concave: concave, x: a.low + b.low, first: b.low, last: b.low}
}

// to moves on to x, which is no less than before, and what both can have.
func (w *window) to(x int64) (first, last int64) {
	if !w.concave {
		return max(w.b.low, x-w.a.high), min(w.b.high, x-w.a.low)
	}
	for ; w.x < x; w.x++ {
		if w.compareNext(w.first) < 0 {
			w.first++
		}
		if w.compareNext(w.last) <= 0 {
			w.last++
		}
	}
	return w.first, w.last
}

// compareNext compares one more unit of a with one more of b where y of x are of b: above
// 0 if that of a is better, or b has none.
func (w *window) compareNext(y int64) int {
	z := w.x - y
	switch {
	case y == w.b.high:
		return 1
	case z == w.a.high:
		return -1
	}
	return compareSteps(w.a.at(z), w.a.at(z+1), w.b.at(y), w.b.at(y+1))
}

// best is the best rank of x units, and how many of them are of b; of equals the fewest.
// It is nothing, and -1, if there are none.
func (w *window) best(x int64) (found rank, cut int32) {
	found, cut = nothing, -1
	first, last := w.to(x)
	if first > last {
		return found, cut
	}
	ofA, ofB := w.a.ranks[x-last-w.a.low:x-first-w.a.low+1], w.b.ranks[first-w.b.low:last-w.b.low+1]
	for i := range ofB {
		a, b := &ofA[len(ofB)-1-i], &ofB[i]
		if a.sharing == math.MinInt64 || b.sharing == math.MinInt64 {
			continue
		}
		if sharing := a.sharing + b.sharing; sharing < found.sharing ||
			sharing == found.sharing && a.even+b.even < found.even {
			continue // most go here where units share devices
		}
		if r := a.plus(*b); r.better(found) {
			found, cut = r, int32(first)+int32(i) //nolint:gosec // bounded by the units
		}
	}
	return found, cut
}
