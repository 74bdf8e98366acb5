package topology

import "math"

// span is how many units of a node can be chosen.
type span struct {
	free, must, remain int64
	// low and high bound what a choice from the whole tree takes of the node.
	low, high int64
	// at is where the best ranks of low to high units begin.
	at int
	// cuts is where, for each child but the first, the best numbers of units of that
	// child begin; see fold.
	cuts int
}

// work is the memory of one choice in a tree, used again by the next one.
type work struct {
	spans []span
	ranks []rank
	cuts  []int32
	fold  [2][]rank
	take  []int64
	cut   []cutStart
}

// cutStart is where the cuts of a child begin: with those of low units.
type cutStart struct {
	at  int
	low int64
}

// best is one choice in a tree.
type best struct {
	top     int32
	rank    rank
	weakest int64
}

// noLink is the weakest link of a set without pairs of different devices.
const noLink = math.MaxInt64

// choose marks size of the units as chosen; there are as many. It returns what they
// count for. Every way to divide
// the units of a node among its children is looked at, but with each number of
// units of a child only its best choice: that is exact, as ranks add up.
//
// The weakest link does not add up. But it is that of the smallest cluster around
// the choice; so each cluster that can hold it is tried as the top, with its weight.
// The true weakest link may be better; then the choice is also that of a smaller
// cluster, and wins there. The work is O(units x size); less for replicas, see [window].
func (t *tree) choose(s *shape, c *call, size int64) best {
	w := &c.work
	t.measure(c, size)
	w.ranks, w.cuts = w.ranks[:0], w.cuts[:0]
	found := best{top: -1}
	for i := int32(len(t.nodes) - 1); i >= 0; i-- { //nolint:gosec // bounded by the units
		n, p := &t.nodes[i], &w.spans[i]
		if p.low > p.high {
			continue
		}
		if len(n.units) > 0 {
			p.at = len(w.ranks)
			for x := p.low; x <= p.high; x++ {
				w.ranks = append(w.ranks, n.rank(s, p.remain, x))
			}
		} else {
			t.merge(s, w, i, size)
		}
		if !n.top || p.must < w.spans[0].must || p.high < size {
			continue
		}
		b := best{i, w.ranks[p.at+int(size-p.low)], n.weight}
		if b.rank == nothing {
			continue
		}
		for up := n.parent; up >= 0; up = t.nodes[up].parent {
			b.rank = b.rank.plus(t.nodes[up].rank(s, w.spans[up].remain, size))
		}
		if n.device || size == 1 {
			b.weakest = noLink
		}
		if found.top < 0 || !s.options.betterWith(found.rank, found.weakest, b.rank, b.weakest) {
			found = b // of equals the first, which comes last
		}
	}
	if found.top >= 0 {
		t.mark(c, found.top, size)
	}
	return found
}

// measure counts what can be chosen in every node.
func (t *tree) measure(c *call, size int64) {
	w := &c.work
	w.spans = grow(w.spans, len(t.nodes))
	clear(w.spans)
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n, p := &t.nodes[i], &w.spans[i]
		for _, u := range n.units {
			switch {
			case c.state[u]&must != 0:
				p.must++
				p.free++
				p.remain++
			case c.state[u]&banned != 0:
				p.remain++
			case c.state[u]&free != 0:
				p.free++
				p.remain++
			}
		}
		if n.parent >= 0 {
			up := &w.spans[n.parent]
			up.must, up.free, up.remain = up.must+p.must, up.free+p.free, up.remain+p.remain
		}
	}
	total := w.spans[0].free
	for i := range w.spans {
		p := &w.spans[i]
		p.high = min(p.free, size)
		p.low = max(p.must, size-(total-p.free))
	}
}

// merge finds the best ranks of an inner node from those of its children.
func (t *tree) merge(s *shape, w *work, i int32, size int64) {
	n, p := &t.nodes[i], &w.spans[i]
	total := w.spans[0].free
	now, next := w.fold[0], w.fold[1]
	var sum span
	concave := false
	p.cuts = len(w.cuts)
	for j, child := range n.children {
		q := &w.spans[child]
		one := operand{w.ranks[q.at : q.at+int(q.high-q.low)+1], q.low, q.high}
		if j == 0 {
			now = append(now[:0], one.ranks...)
			sum, concave = *q, one.isConcave()
			continue
		}
		both := span{free: sum.free + q.free, must: sum.must + q.must}
		both.high = min(both.free, size)
		both.low = max(both.must, size-(total-both.free))
		next = grow(next, int(both.high-both.low)+1)
		concave = concave && one.isConcave() // then that of both is
		window := newWindow(operand{now, sum.low, sum.high}, one, concave)
		for x := both.low; x <= both.high; x++ {
			found, cut := window.best(x)
			next[x-both.low] = found
			w.cuts = append(w.cuts, cut)
		}
		sum = both
		now, next = next, now
	}
	p.at = len(w.ranks)
	for x := p.low; x <= p.high; x++ {
		r := now[x-sum.low]
		if r.sharing != math.MinInt64 {
			r = r.plus(n.rank(s, p.remain, x))
		}
		w.ranks = append(w.ranks, r)
	}
	w.fold[0], w.fold[1] = now, next
}

// mark chooses x units of a node as merge has found.
func (t *tree) mark(c *call, top int32, size int64) {
	w := &c.work
	w.take = grow(w.take, len(t.nodes))
	clear(w.take)
	w.take[top] = size
	total := w.spans[0].free
	for i := top; int(i) < len(t.nodes); i++ {
		n, x := &t.nodes[i], w.take[i]
		if x == 0 {
			continue
		}
		if len(n.units) > 0 {
			c.markUnits(n.units, x)
			continue
		}
		// Where the cuts of each child begin follows from the spans, from the first
		// on; they are undone from the last.
		at := w.spans[i].cuts
		sum := w.spans[n.children[0]]
		w.cut = grow(w.cut, len(n.children))
		starts := w.cut
		for j, child := range n.children[1:] {
			q := &w.spans[child]
			sum.free, sum.must = sum.free+q.free, sum.must+q.must
			low := max(sum.must, size-(total-sum.free))
			starts[j+1] = cutStart{at: at, low: low}
			at += int(min(sum.free, size)-low) + 1
		}
		for j := len(n.children) - 1; j > 0; j-- {
			y := int64(w.cuts[starts[j].at+int(x-starts[j].low)])
			w.take[n.children[j]] = y
			x -= y
		}
		w.take[n.children[0]] = x
	}
}

// grow is a slice of n elements, the old one if that is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
