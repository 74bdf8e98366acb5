package topology

import (
	"cmp"
	"math"
	"slices"
)

// explore searches all choices, class by class, that can be better than the best.
func (w *searchCall) explore() {
	n := len(w.x)
	if int64(n)*w.size > maxTable {
		w.late, w.missed = true, w.ceiling()
		return
	}
	w.order = grow(w.order, n)
	w.lows, w.highs = grow(w.lows, n+1), grow(w.highs, n+1)
	for i := range w.order {
		w.order[i] = int32(i) //nolint:gosec // bounded by the units
	}
	slices.SortStableFunc(w.order, func(a, b int32) int { return cmp.Compare(w.best[b], w.best[a]) })
	w.lows[n], w.highs[n] = 0, 0
	for i := n - 1; i >= 0; i-- {
		c := w.order[i]
		w.lows[i], w.highs[i] = w.lows[i+1]+w.low[c], w.highs[i+1]+w.high[c]
	}
	w.tabulate()
	w.reachable()
	if left := w.size - w.lows[0]; w.late {
		w.missed = w.bound(0, left) - w.bestRank.links
	} else {
		w.descend(0, left, noLink)
	}
}

// tabulate computes what r units can add to the links of a unit at most: the weights
// of the r best links that it has to what may be chosen.
func (w *searchCall) tabulate() {
	w.tops = grow(w.tops, len(w.x)*int(w.size))
	for i := range w.x {
		row := w.tops[i*int(w.size) : (i+1)*int(w.size)]
		row[0] = 0
		r := 1
		for _, n := range w.classes.all[i].near {
			units := w.high[n.device]
			if int(n.device) == i {
				units--
			}
			for ; units > 0 && r < len(row); units-- {
				row[r] = row[r-1] + n.weight
				r++
			}
		}
		for ; r < len(row); r++ {
			row[r] = row[r-1]
		}
	}
}

// bound is what the links can be at most with left more units of the classes from i
// on. Each adds its links to what is chosen, and half of its best ones to others.
func (w *searchCall) bound(i int, left int64) int64 {
	if left == 0 {
		return w.rank.links
	}
	w.values = w.values[:0]
	for _, c := range w.order[i:] {
		if units := w.high[c] - w.x[c]; units > 0 {
			w.values = append(w.values, value{2*w.gain[c] + w.tops[int64(c)*w.size+left-1], units})
		}
	}
	return (2*w.rank.links + w.sumBest(left)) / 2
}

// sumBest sums the best values of left units up.
func (w *searchCall) sumBest(left int64) int64 {
	slices.SortFunc(w.values, func(a, b value) int { return cmp.Compare(b.each, a.each) })
	sum := int64(0)
	for _, v := range w.values {
		n := min(left, v.units)
		sum += n * v.each
		if left -= n; left == 0 {
			break
		}
	}
	return sum
}

// hopeless reports whether no choice below can be as good as the best: with the
// weakest link that it can have at most, and how it must share devices. unsure: it can
// if its links can.
func (w *searchCall) hopeless(i int, left, weakest int64) (hopeless, unsure bool) {
	o := &w.shape.options
	sharing, even := w.rank.sharing, w.rank.even
	switch {
	case w.levelled:
		sharing, even = w.bestRank.sharing, w.bestRank.even // all have these
	case o.Policy == Spread:
		sharing += left
	case o.Policy == Pack && w.apart:
		even += w.closest(i, left)
	case o.Policy == Pack:
		even = math.MaxInt64
	}
	switch {
	case sharing != w.bestRank.sharing:
		return sharing < w.bestRank.sharing, false
	case even != w.bestRank.even:
		return even < w.bestRank.even, false
	case o.WeakestFirst && weakest != w.bestWeakest:
		return weakest < w.bestWeakest, false
	}
	return false, true
}

// closest is what left more units of the classes from i on can add at most to how
// many pairs share a device: those with most units are filled first.
func (w *searchCall) closest(i int, left int64) int64 {
	added := int64(0)
	w.values = w.values[:0]
	for _, c := range w.order[i:] {
		added -= pairs(w.x[c])
		left += w.x[c]
		w.values = append(w.values, value{w.high[c], w.high[c]})
	}
	slices.SortFunc(w.values, func(a, b value) int { return cmp.Compare(b.units, a.units) })
	for _, v := range w.values {
		n := min(left, v.units)
		added += pairs(n)
		left -= n
	}
	if w.shape.replicas {
		return added<<evenShift + added
	}
	return added << evenShift
}

// weakestWith is the weakest link once units of a class are there, too.
func (w *searchCall) weakestWith(c int32, weakest int64) int64 {
	k := &w.classes.all[c]
	if w.x[c] > 1 && k.inner >= 0 {
		weakest = min(weakest, k.inner)
	}
	for i, x := range w.x {
		if x > 0 && int32(i) != c { //nolint:gosec // bounded by the units
			weakest = min(weakest, w.shape.graph.weight(k.device, w.classes.all[i].device))
		}
	}
	return weakest
}

// descend tries all numbers of units of the class at i, and goes on with the next
// one; left more units are to be chosen. weakest is the weakest link so far, where
// that is compared first.
func (w *searchCall) descend(i int, left, weakest int64) {
	if left == 0 {
		w.keep()
		return
	}
	if w.timeIsUp(1 << 6) {
		return
	}
	hopeless, unsure := w.hopeless(i, left, weakest)
	if hopeless {
		return
	}
	links := w.bound(i, left)
	if unsure && links < w.bestRank.links {
		return
	}
	c := w.order[i]
	after := w.highs[i+1] - w.lows[i+1]
	most := min(left, w.high[c]-w.low[c])
	partly := w.partly
	for x := most; x >= 0 && left-x <= after; x-- {
		between := x > 0 && x < w.high[c]-w.low[c]
		if w.convex && (partly || between) && (partly && between || !w.reach[int64(i+1)*w.size+left-x]) {
			continue
		}
		w.partly = partly || between
		w.add(c, w.low[c]+x-w.x[c])
		below := weakest
		if w.shape.options.WeakestFirst && w.x[c] > 0 {
			below = w.weakestWith(c, weakest)
		}
		w.descend(i+1, left-x, below)
		w.partly = partly
		if w.late || w.proven { // what was not tried is within the bound of this one
			w.missed = max(w.missed, links-w.bestRank.links)
			return
		}
	}
	w.add(c, w.low[c]-w.x[c])
}

// reachable finds what the classes from each place on can add if all of them are full
// or as empty as can be.
//
// With the policy pack and classes that are physical devices, one class at most is in
// between. Of two, a unit that moves from the one with fewer to the other makes no
// device more, and more pairs that share one.
func (w *searchCall) reachable() {
	w.convex = w.apart && w.shape.options.Policy == Pack
	if !w.convex {
		return
	}
	n, size := len(w.order), int(w.size)
	w.reach = grow(w.reach, (n+1)*size)
	clear(w.reach)
	w.reach[n*size] = true
	for i := n - 1; i >= 0; i-- {
		row, below := w.reach[i*size:(i+1)*size], w.reach[(i+1)*size:(i+2)*size]
		units := int(w.high[w.order[i]] - w.low[w.order[i]])
		for sum := range row {
			row[sum] = below[sum] || sum >= units && below[sum-units]
		}
	}
}

// ceiling is how much better the links of any choice can be than those of the best.
func (w *searchCall) ceiling() int64 {
	w.values = w.values[:0]
	for i := range w.x {
		sum, r := int64(0), w.size-1
		for _, n := range w.classes.all[i].near {
			units := min(r, w.high[n.device])
			sum += units * n.weight
			r -= units
		}
		w.values = append(w.values, value{sum, w.high[i]})
	}
	return w.sumBest(w.size)/2 - w.bestRank.links
}
