package topology

import (
	"cmp"
	"slices"
	"time"
)

// maxTable bounds the table of bounds; where it would be greater, what is found
// first is not searched any further.
const maxTable = 1 << 16

// searchCall is the memory of one search. All slices are by class, but for those
// that say otherwise.
type searchCall struct {
	shape   *shape
	classes *classes
	// low and high bound how many units are chosen, x are chosen, best is the best
	// choice so far.
	low, high, x, best []int64
	// busy are the units in use. gain is what one more unit adds to the links.
	busy, gain []int64
	// inPart, busyPart are by physical device; inNode by NUMA node.
	inPart, busyPart []int64
	inNode           map[int]int64
	rank             rank

	bestRank    rank
	bestWeakest int64

	// order is that of the search; lows and highs sum up low and high from there on;
	// tops has, by class, what r units can add at most, for r below size.
	order       []int32
	lows, highs []int64
	size        int64
	tops        []int64
	values      []value

	deadline time.Time
	steps    int
	late     bool
	missed   int64
}

// value is what some units of a class can add to twice the links.
type value struct{ each, units int64 }

// searcher are the classes of a topology, made when they are first needed.
func (s *shape) searcher() *classes {
	s.once.Do(func() {
		if s.classes == nil {
			s.classes = s.newClasses()
		}
	})
	return s.classes
}

// choose marks the best choice that is found in time: first one is put together unit
// by unit, then units are exchanged as long as that helps, then all others are
// searched that could have better links. missed is how much better they can be at
// most where time was up.
func (k *classes) choose(s *shape, c *call, size int) (exact bool, missed int64) {
	w := &c.search
	w.start(s, k, c, size)
	w.fill(int64(size))
	w.improve()
	w.keep()
	if int64(len(k.all))*w.size <= maxTable {
		w.explore()
	} else {
		w.late, w.missed = true, w.ceiling()
	}
	for i, x := range w.best {
		c.markUnits(k.all[i].units, x)
	}
	return !w.late && len(s.goals) == 0, max(0, w.missed)
}

func (w *searchCall) start(s *shape, k *classes, c *call, size int) {
	n := len(k.all)
	w.shape, w.classes, w.size = s, k, int64(size)
	for _, p := range []*[]int64{&w.low, &w.high, &w.x, &w.best, &w.busy, &w.gain} {
		*p = grow(*p, n)
		clear(*p)
	}
	w.inPart, w.busyPart = grow(w.inPart, s.physicals), grow(w.busyPart, s.physicals)
	clear(w.inPart)
	clear(w.busyPart)
	if w.inNode == nil {
		w.inNode = map[int]int64{}
	}
	clear(w.inNode)
	w.rank, w.bestRank = rank{}, nothing
	w.deadline, w.steps, w.late, w.missed = s.options.Now().Add(s.options.TimeLimit), 0, false, 0
	for u, state := range c.state {
		i := k.of[u]
		switch state {
		case must:
			w.low[i]++
			w.high[i]++
		case free:
			w.high[i]++
		case 0:
			w.busy[i]++
			w.busyPart[s.physical[s.device[u]]]++
		}
	}
	for i, low := range w.low {
		for range low {
			w.add(int32(i), 1) //nolint:gosec // bounded by the units
		}
	}
	if s.replicas && s.options.Policy == BestLinks {
		w.level()
	}
}

// level narrows how many replicas of each device are chosen to what gives the least
// repeats: as many of each, but for one more of some.
func (w *searchCall) level() {
	level, total := int64(0), func(level int64) (n int64) {
		for i := range w.low {
			n += max(w.low[i], min(w.high[i], level))
		}
		return n
	}
	for high := w.size; level < high; { // the greatest level that is not too much
		if middle := (level + high + 1) / 2; total(middle) <= w.size {
			level = middle
		} else {
			high = middle - 1
		}
	}
	for i := range w.low {
		most := max(w.low[i], min(w.high[i], level+1))
		for w.low[i] < min(most, level) {
			w.low[i]++
			w.add(int32(i), 1) //nolint:gosec // bounded by the units
		}
		w.high[i] = most
	}
}

// add chooses a unit of a class more, or with sign -1 one less.
func (w *searchCall) add(i int32, sign int64) {
	if sign < 0 {
		w.count(i, sign)
		r := w.marginal(i)
		w.rank = w.rank.plus(rank{-r.sharing, -r.even, -r.links, -r.numa, -r.load, -r.left, -r.rest})
		return
	}
	w.rank = w.rank.plus(w.marginal(i))
	w.count(i, sign)
}

func (w *searchCall) count(i int32, sign int64) {
	k := &w.classes.all[i]
	w.x[i] += sign
	for _, n := range k.near {
		w.gain[n.device] += sign * n.weight
	}
	if k.physical >= 0 {
		w.inPart[k.physical] += sign
	}
	if k.numa >= 0 {
		for _, node := range w.shape.numaSets[k.numa] {
			w.inNode[node] += sign
		}
	}
}

// marginal is what one more unit of a class adds.
func (w *searchCall) marginal(i int32) rank {
	k, s := &w.classes.all[i], w.shape
	r := rank{links: w.gain[i]}
	if k.numa < 0 {
		r.numa = -1
	} else {
		for _, node := range s.numaSets[k.numa] {
			if w.inNode[node] == 0 {
				r.numa--
			}
		}
	}
	var before, after rank
	if x := w.x[i]; s.replicas {
		s.options.onDevice(&before, x)
		s.options.onDevice(&after, x+1)
	}
	x, busy := int64(0), int64(0)
	if k.physical >= 0 {
		x, busy = w.inPart[k.physical], w.busyPart[k.physical]
	}
	s.options.onPhysical(&before, x)
	s.options.onPhysical(&after, x+1)
	if s.replicas && s.options.Policy == BestLinks {
		x, busy = w.x[i], w.busy[i]
	}
	s.onLoad(&r, busy+x, 1)
	r.sharing += after.sharing - before.sharing
	r.even += after.even - before.even
	r.rest += after.rest - before.rest
	return r
}

// fill adds the unit that adds most, one after the other; when time is up, whatever
// comes first.
func (w *searchCall) fill(size int64) {
	chosen := int64(0)
	for _, x := range w.x {
		chosen += x
	}
	for ; chosen < size && !w.timeIsUp(1<<10); chosen++ {
		best, found := nothing, int32(-1)
		for i := range w.x {
			if i := int32(i); w.x[i] < w.high[i] { //nolint:gosec // bounded by the units
				if r := w.marginal(i); r.better(best) {
					best, found = r, i
				}
			}
		}
		if found < 0 {
			return
		}
		w.add(found, 1)
	}
	step := int64(1)
	if !w.shape.replicas || w.shape.options.Policy == Pack {
		step = size
	}
	for chosen < size {
		before := chosen
		for i := range w.x {
			for n := min(step, w.high[i]-w.x[i], size-chosen); n > 0; n-- {
				w.add(int32(i), 1) //nolint:gosec // bounded by the units
				chosen++
			}
		}
		if chosen == before {
			return
		}
	}
}

// timeIsUp looks at the clock after some work only.
func (w *searchCall) timeIsUp(cost int) bool {
	if w.steps += cost; w.steps >= 1<<10 && !w.late {
		w.steps = 0
		w.late = !w.shape.options.Now().Before(w.deadline)
	}
	return w.late
}

// improve exchanges one unit for another as long as that is better.
func (w *searchCall) improve() {
	for improved := true; improved; {
		improved = false
		for i := range w.x {
			out := int32(i) //nolint:gosec // bounded by the units
			if w.x[out] <= w.low[out] {
				continue
			}
			if w.timeIsUp(len(w.x)) {
				return
			}
			before := w.rank
			w.add(out, -1)
			best, in := before, out
			for j := range w.x {
				if j := int32(j); j != out && w.x[j] < w.high[j] { //nolint:gosec // bounded by the units
					if r := w.rank.plus(w.marginal(j)); r.better(best) {
						best, in = r, j
					}
				}
			}
			w.add(in, 1)
			improved = improved || in != out
		}
	}
}

// keep remembers the choice if it is the best so far.
func (w *searchCall) keep() {
	if r := w.rank; w.bestRank != nothing && (r.sharing < w.bestRank.sharing ||
		r.sharing == w.bestRank.sharing && r.even < w.bestRank.even) {
		return
	}
	if weakest := w.weakest(); w.shape.options.betterWith(w.rank, weakest, w.bestRank, w.bestWeakest) {
		w.bestRank, w.bestWeakest = w.rank, weakest
		copy(w.best, w.x)
	}
}

// weakest is the weakest link of what is chosen.
func (w *searchCall) weakest() int64 {
	weakest := int64(noLink)
	for i, x := range w.x {
		if x == 0 {
			continue
		}
		k := &w.classes.all[i]
		if x > 1 && k.inner >= 0 {
			weakest = min(weakest, k.inner)
		}
		for j, y := range w.x[:i] {
			if y > 0 {
				weakest = min(weakest, w.shape.graph.weight(k.device, w.classes.all[j].device))
			}
		}
	}
	return weakest
}

// explore searches all choices, class by class, that can be better than the best.
func (w *searchCall) explore() {
	n := len(w.x)
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
	w.reset()
	w.descend(0, w.size-w.lows[0])
}

// reset goes back to what must be.
func (w *searchCall) reset() {
	for i := range w.x {
		for w.x[i] > w.low[i] {
			w.add(int32(i), -1) //nolint:gosec // bounded by the units
		}
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

// hopeless reports whether no choice below can be as good as the best.
func (w *searchCall) hopeless(links, left int64) bool {
	sharing, even := w.rank.sharing, w.rank.even
	switch {
	case w.shape.options.Policy == Spread:
		if sharing+left < w.bestRank.sharing {
			return true
		}
		return sharing+left == w.bestRank.sharing && (even < w.bestRank.even ||
			even == w.bestRank.even && !w.shape.options.WeakestFirst && links < w.bestRank.links)
	case w.shape.options.Policy == Pack:
		return sharing < w.bestRank.sharing
	case w.shape.replicas: // level has made all repeats equal
		return !w.shape.options.WeakestFirst && links < w.bestRank.links
	}
	return !w.shape.options.WeakestFirst && links < w.bestRank.links
}

// descend tries all numbers of units of the class at i, and goes on with the next
// one; left more units are to be chosen.
func (w *searchCall) descend(i int, left int64) {
	if left == 0 {
		if w.timeIsUp(len(w.x)) {
			w.missed = max(w.missed, w.rank.links-w.bestRank.links)
			return
		}
		w.keep()
		return
	}
	links := w.bound(i, left)
	if w.hopeless(links, left) {
		return
	}
	if w.timeIsUp(len(w.x)) {
		w.missed = max(w.missed, links-w.bestRank.links)
		return
	}
	c := w.order[i]
	after := w.highs[i+1] - w.lows[i+1]
	most := min(left, w.high[c]-w.low[c])
	for range most {
		w.add(c, 1)
	}
	for x := most; x >= 0; x-- {
		if left-x > after {
			for ; x > 0; x-- {
				w.add(c, -1)
			}
			return
		}
		w.descend(i+1, left-x)
		if x > 0 {
			w.add(c, -1)
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
