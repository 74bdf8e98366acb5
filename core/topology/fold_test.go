package topology

import (
	"testing"

	"pgregory.net/rapid"
)

// drawOperand makes ranks with few different steps, so that many sums are equal.
func drawOperand(t *rapid.T) operand {
	o := operand{low: int64(rapid.IntRange(0, 3).Draw(t, "low"))}
	o.high = o.low + int64(rapid.IntRange(0, 12).Draw(t, "more"))
	step := rapid.Int64Range(-2, 1)
	falling := rapid.Bool().Draw(t, "falling")
	sharing, even := int64(2), int64(2)
	var r rank
	for range o.high - o.low + 1 {
		o.ranks = append(o.ranks, r)
		if falling {
			if by := rapid.Int64Range(0, 1).Draw(t, "sharing falls"); by > 0 {
				sharing -= by
				even = 2
			} else {
				even += min(0, step.Draw(t, "even falls"))
			}
		} else {
			sharing, even = step.Draw(t, "sharing"), step.Draw(t, "even")
		}
		r.sharing, r.even, r.links = r.sharing+sharing, r.even+even, r.links+step.Draw(t, "links")
	}
	return o
}

// Verifies that no number of units outside of a window is best, and that what two
// parts that are concave make is.
func TestWindow(t *testing.T) {
	narrow := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOperand(t), drawOperand(t)
		concave := a.isConcave() && b.isConcave()
		window, all := newWindow(a, b, concave), newWindow(a, b, false)
		both := operand{low: a.low + b.low, high: a.high + b.high}
		// It may begin anywhere.
		begin := rapid.Int64Range(both.low, both.high).Draw(t, "begin")
		for x := both.low; x <= both.high; x++ {
			want, wantCut := all.best(x)
			both.ranks = append(both.ranks, want)
			if x < begin {
				continue
			}
			if got, cut := window.best(x); got != want || cut != wantCut {
				t.Fatalf("%d of %+v and %+v: %+v with %d, want %+v with %d", x, a, b, got, cut, want, wantCut)
			}
			if first, last := window.to(x); last-first < min(b.high, x-a.low)-max(b.low, x-a.high) {
				narrow++
			}
		}
		if concave && !both.isConcave() {
			t.Fatalf("%+v and %+v make %+v", a, b, both)
		}
	})
	if narrow == 0 {
		t.Error("no window was narrow")
	}
}
