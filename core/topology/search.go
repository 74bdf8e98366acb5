package topology

import (
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
	inPart, busyPart, inNode []int64
	rank                     rank
	// apart: every class is a physical device. levelled: all choices share devices alike.
	apart, levelled bool
	// convex, reach: see reachable. partly: a class is neither full nor as empty as can
	// be.
	convex, partly bool
	reach          []bool

	bestRank    rank
	bestWeakest int64
	// limit is what no choice is better than, if its top is not negative; proven: the
	// best is as good.
	limit  best
	proven bool

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

// choose marks the best choice that is found in time: one is put together unit by
// unit, another one is that of the ceiling, if there is one; in both units are exchanged
// as long as that helps; then all others are searched that could be better. missed is
// how much better the links of those can be at most where time was up.
func (k *classes) choose(s *shape, c *call, size int) (exact bool, missed int64) {
	w := &c.search
	w.start(s, k, c, size)
	if s.ceiling != nil && s.ceiling.affordable(s, w.size, int64(len(c.state))) {
		w.limit = s.ceiling.choose(s, c, w.size)
		w.adopt(c)
		w.improve()
		w.keep()
		w.reset()
	}
	if !w.proven {
		w.fill(w.size)
		w.improve()
		w.keep()
		w.reset()
		w.explore()
	}
	for i, x := range w.best {
		c.markUnits(k.all[i].units, x)
	}
	if w.proven {
		return len(s.goals) == 0, 0
	}
	if l := w.limit; l.top >= 0 && l.rank.sharing == w.bestRank.sharing && l.rank.even == w.bestRank.even && !s.options.WeakestFirst {
		w.missed = min(w.missed, l.rank.links-w.bestRank.links)
	}
	return !w.late && len(s.goals) == 0, max(0, w.missed)
}

// adopt takes over what is marked as chosen.
func (w *searchCall) adopt(c *call) {
	counts := w.best // not used yet
	clear(counts)
	for u, state := range c.state {
		if state&chosen != 0 {
			counts[w.classes.of[u]]++
			c.state[u] &^= chosen
		}
	}
	for i, x := range counts {
		w.add(int32(i), x-w.x[i]) //nolint:gosec // bounded by the units
	}
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
	w.inNode = grow(w.inNode, len(s.nodes))
	clear(w.inNode)
	w.rank, w.bestRank = rank{}, nothing
	w.deadline, w.steps, w.late, w.missed = s.options.Now().Add(s.options.TimeLimit), 0, false, 0
	w.partly, w.proven, w.limit = false, false, best{top: -1}
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
		w.add(int32(i), low) //nolint:gosec // bounded by the units
	}
	w.apart = s.physicals == n && (s.replicas || !slices.ContainsFunc(k.all, func(c class) bool { return c.physical < 0 }))
	w.levelled = s.replicas && s.options.Policy == BestLinks || w.apart && s.options.Policy == Spread
	if w.levelled {
		w.level()
	}
}

// level narrows how many units of each class are chosen to what gives the fewest pairs
// of units that share a device: as many of each, but for one more of some.
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
		if least := min(most, level); least > w.low[i] {
			w.add(int32(i), least-w.low[i]) //nolint:gosec // bounded by the units
			w.low[i] = least
		}
		w.high[i] = most
	}
}

// add chooses n units of a class more, or -n less if n is negative.
func (w *searchCall) add(i int32, n int64) {
	switch {
	case n > 0:
		w.rank = w.rank.plus(w.marginal(i, n))
		w.count(i, n)
	case n < 0:
		w.count(i, n)
		w.rank = w.rank.minus(w.marginal(i, -n))
	}
}

func (w *searchCall) count(i int32, n int64) {
	k := &w.classes.all[i]
	w.x[i] += n
	for _, near := range k.near {
		w.gain[near.device] += n * near.weight
	}
	if k.physical >= 0 {
		w.inPart[k.physical] += n
	}
	if k.numa >= 0 {
		for _, node := range w.shape.numaSets[k.numa] {
			w.inNode[node] += n
		}
	}
}

// marginal is what n more units of a class add.
func (w *searchCall) marginal(i int32, n int64) rank {
	k, s := &w.classes.all[i], w.shape
	r := rank{links: n*w.gain[i] + max(0, k.inner)*pairs(n)}
	if k.numa < 0 {
		r.numa = -n
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
		s.options.onDevice(&after, x+n)
	}
	if k.physical < 0 { // each is one, with nothing else on it
		s.options.onPhysical(&after, 1)
		s.onLoad(&after, 0, 1)
		r = r.plus(rank{sharing: n * after.sharing, load: n * after.load, rest: n * after.rest})
		return r
	}
	x, busy := w.inPart[k.physical], w.busyPart[k.physical]
	s.options.onPhysical(&before, x)
	s.options.onPhysical(&after, x+n)
	if s.replicas && s.options.Policy == BestLinks {
		x, busy = w.x[i], w.busy[i]
	}
	s.onLoad(&r, busy+x, n)
	return r.plus(after).minus(before)
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
				if r := w.marginal(i, 1); r.better(best) {
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
			n := min(step, w.high[i]-w.x[i], size-chosen)
			w.add(int32(i), n) //nolint:gosec // bounded by the units
			chosen += n
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
					if r := w.rank.plus(w.marginal(j, 1)); r.better(best) {
						best, in = r, j
					}
				}
			}
			w.add(in, 1)
			improved = improved || in != out
		}
	}
}

// reset goes back to what must be.
func (w *searchCall) reset() {
	for i := range w.x {
		w.add(int32(i), w.low[i]-w.x[i]) //nolint:gosec // bounded by the units
	}
}

// keep remembers the choice if it is the best so far.
func (w *searchCall) keep() {
	if r := w.rank; w.bestRank != nothing && (r.sharing < w.bestRank.sharing ||
		r.sharing == w.bestRank.sharing && (r.even < w.bestRank.even ||
			r.even == w.bestRank.even && !w.shape.options.WeakestFirst && r.links < w.bestRank.links)) {
		return
	}
	if weakest := w.weakest(); w.shape.options.betterWith(w.rank, weakest, w.bestRank, w.bestWeakest) {
		w.bestRank, w.bestWeakest = w.rank, weakest
		copy(w.best, w.x)
		l := &w.limit
		w.proven = l.top >= 0 && !w.shape.options.betterWith(l.rank, l.weakest, w.bestRank, w.bestWeakest)
	}
}

// weakest is the weakest link of what is chosen.
func (w *searchCall) weakest() int64 {
	weakest, classes := int64(noLink), 0
	for _, x := range w.x {
		classes += int(min(x, 1))
	}
	for i, x := range w.x {
		if x == 0 {
			continue
		}
		k := &w.classes.all[i]
		linked := 1
		for _, n := range k.near {
			if int(n.device) != i && w.x[n.device] > 0 {
				linked++
				weakest = min(weakest, n.weight)
			}
		}
		if x > 1 && k.inner >= 0 {
			weakest = min(weakest, k.inner)
		}
		if linked < classes {
			return 0
		}
	}
	return weakest
}
