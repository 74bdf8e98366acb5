package topology

// Bounds of the work for a choice, in additions to a set, about 10 ns each. Within maxWork
// sets are built from several beginnings. A request for which one set takes more than
// maxGreedy is filled in the order of IDs.
const (
	maxWork   = 1 << 14
	maxGreedy = 1 << 20
)

// greedy is the working memory of one choice. Slices are indexed by device, except parts and
// nodes.
type greedy struct {
	s *shape
	// low and high bound how many units are chosen; load is the load that one unit adds.
	low, high, load []int64
	// now is the set that is being built, best the best one so far.
	now, best partial
	begun     partial // what every set begins with
	found     bool
}

// partial is an incomplete set.
type partial struct {
	score score
	size  int64
	x     []int64
	// gain is the points that one more unit adds, rest its points to the units that are
	// left; weakest is its weakest link to linked units of the set.
	gain, rest, weakest, linked []int64
	parts                       []int64 // units by physical device
	nodes                       []int64 // units that are left by place
}

func (p *partial) copyFrom(q *partial) {
	p.score, p.size = q.score, q.size
	for _, to := range [...]struct {
		to   *[]int64
		from []int64
	}{{&p.x, q.x}, {&p.gain, q.gain}, {&p.rest, q.rest}, {&p.weakest, q.weakest}, {&p.linked, q.linked}, {&p.parts, q.parts}, {&p.nodes, q.nodes}} {
		*to.to = append((*to.to)[:0], to.from...)
	}
}

// choose marks a good set. It builds a set from each device in turn, as far as maxWork
// allows, by adding a unit of the device that adds most, and takes the best set.
func (g *greedy) choose(s *shape, c *call, size int64) {
	g.begin(s, c)
	if s.levels() {
		g.level(size)
	}
	cost := (size - g.begun.size) * int64(len(s.devices))
	if cost > maxGreedy {
		g.fill(size)
	} else {
		g.from(-1, size)
		for i := range s.devices {
			if int64(i+2)*cost > maxWork {
				break
			}
			g.from(int32(i), size) //nolint:gosec // bounded by the units
		}
		g.improve()
	}
	for i, x := range g.best.x {
		c.markUnits(s.unitsOf[i], x)
	}
}

// levels reports whether the policy distributes the units evenly over the devices.
func (s *shape) levels() bool {
	return s.replicas && (s.options.Policy == BestLinks || s.options.Policy == Spread && s.physicals == len(s.devices))
}

// begin counts the available units, and chooses the required ones.
func (g *greedy) begin(s *shape, c *call) {
	g.s, g.found = s, false
	b, n := &g.begun, len(s.devices)
	for _, p := range []*[]int64{&g.low, &g.high, &g.load, &b.x, &b.gain, &b.rest, &b.weakest, &b.linked} {
		*p = grow(*p, n)
		clear(*p)
	}
	b.parts, b.nodes = grow(b.parts, s.physicals), grow(b.nodes, s.places)
	clear(b.parts)
	clear(b.nodes)
	b.score, b.size = score{weakest: noLink}, 0
	s.countBusy(c)
	remain := grow(c.remain, n)
	c.remain = remain
	clear(remain)
	for u, state := range c.state {
		i := s.device[u]
		switch state {
		case must:
			g.low[i]++
			g.high[i]++
		case free:
			g.high[i]++
		}
		if state != 0 {
			remain[i]++
			if at := s.place[i]; at >= 0 {
				b.nodes[at]++
			}
		}
	}
	for i := range s.devices {
		b.weakest[i] = noLink
		g.load[i] = c.busy[s.busyGroup(int32(i))] //nolint:gosec // bounded by the units
		for _, near := range s.graph[i] {
			b.rest[i] += near.value * remain[near.device]
		}
	}
	for i, low := range g.low {
		b.score = g.with(b, int32(i), low) //nolint:gosec // bounded by the units
		b.add(s, int32(i), low)            //nolint:gosec // bounded by the units
	}
}

// with returns the score of a set with n more units of a device.
func (g *greedy) with(p *partial, i int32, n int64) score {
	r, s := p.score, g.s
	if n == 0 {
		return r
	}
	r.onNode(s.numa[i], n)
	r.load += n * g.load[i]
	r.links += n * p.gain[i]
	r.left -= n * p.rest[i]
	if at := s.place[i]; at >= 0 {
		r.left -= onePlace * (pairs(p.nodes[at]) - pairs(p.nodes[at]-n))
	}
	in := p.parts[s.physical[i]]
	if in == 0 {
		r.physical++
	}
	r.together += n*in + pairs(n)
	r.repeats += n*p.x[i] + pairs(n)
	if p.linked[i] < p.size {
		r.weakest = 0
	}
	r.weakest = min(r.weakest, p.weakest[i])
	return r
}

// add chooses n more units of a device; the score is the result of with.
func (p *partial) add(s *shape, i int32, n int64) {
	if n == 0 {
		return
	}
	p.x[i] += n
	p.size += n
	p.parts[s.physical[i]] += n
	if at := s.place[i]; at >= 0 {
		p.nodes[at] -= n
	}
	p.linked[i] += n // pairs of replicas have no link, and need none
	p.weakest[i] = noLink
	for _, near := range s.graph[i] {
		j, value := near.device, near.value
		p.gain[j] += n * value
		p.rest[j] -= n * value
		p.weakest[j] = min(p.weakest[j], value)
		p.linked[j] += n
	}
}

// level chooses the same number of units of every device, as many as possible, and allows
// one more of each.
func (g *greedy) level(size int64) {
	level := evenLevel(g.low, g.high, size)
	for i := range g.low {
		high := max(g.low[i], min(g.high[i], level+1))
		if n := min(high, level) - g.low[i]; n > 0 {
			g.begun.score = g.with(&g.begun, int32(i), n) //nolint:gosec // bounded by the units
			g.begun.add(g.s, int32(i), n)                 //nolint:gosec // bounded by the units
		}
		g.high[i] = high
	}
}

// evenLevel returns the greatest number of units that can be chosen of every device, as far
// as its bounds allow, within size.
func evenLevel(low, high []int64, size int64) (level int64) {
	total := func(level int64) (n int64) {
		for i := range low {
			n += max(low[i], min(high[i], level))
		}
		return n
	}
	for most := size; level < most; {
		if middle := (level + most + 1) / 2; total(middle) <= size {
			level = middle
		} else {
			most = middle - 1
		}
	}
	return level
}

// step returns how many units of a device are added at once: all if the policy wants few
// devices, otherwise one.
func (g *greedy) step(i int32, wanted int64) int64 {
	can := min(wanted, g.high[i]-g.now.x[i])
	if g.s.options.Policy == Pack {
		return can
	}
	return min(can, 1)
}

// from builds a set that begins with a device; with any if first is -1.
func (g *greedy) from(first int32, size int64) {
	g.now.copyFrom(&g.begun)
	if first >= 0 && !g.grow(first, size) {
		return
	}
	for g.now.size < size {
		if i := g.bestStep(size - g.now.size); i < 0 || !g.grow(i, size) {
			return
		}
	}
	if !g.found || g.s.compare(&g.now.score, &g.best.score) > 0 {
		g.now, g.best, g.found = g.best, g.now, true
	}
}

func (g *greedy) grow(i int32, size int64) bool {
	n := g.step(i, size-g.now.size)
	g.put(i, n)
	return n > 0
}

// put adds n units of a device.
func (g *greedy) put(i int32, n int64) {
	g.now.score = g.with(&g.now, i, n)
	g.now.add(g.s, i, n)
}

// bestStep returns the device that adds most for each unit, if so many are wanted; -1 if
// there is none.
func (g *greedy) bestStep(wanted int64) int32 {
	found, foundStep := int32(-1), int64(0)
	var best score
	for i := range g.now.x {
		i := int32(i) //nolint:gosec // bounded by the units
		n := g.step(i, wanted)
		if n == 0 {
			continue
		}
		if r := g.with(&g.now, i, n); found < 0 || g.betterStep(&r, n, &best, foundStep) {
			found, foundStep, best = i, n, r
		}
	}
	return found
}

// betterStep reports whether a step of n units is better than one of m, by what each adds
// for each unit.
func (g *greedy) betterStep(a *score, n int64, b *score, m int64) bool {
	for _, c := range g.s.criteria {
		x, y, before := a.value(c.aspect), b.value(c.aspect), g.now.score.value(c.aspect)
		if c.aspect != WeakestLink && n != m {
			x, y = (x-before)*m, (y-before)*n
		}
		if x != y {
			return x > y != c.less
		}
	}
	return false
}

// improve replaces one unit of the best set by another as long as that makes a better set,
// within maxWork sets of one unit fewer.
func (g *greedy) improve() {
	for left, better := int64(maxWork), true; better; {
		better = false
		for i := range g.best.x {
			n := g.best.x[i] - g.begun.x[i]
			if left -= g.best.size; n == 0 || left < 0 {
				continue
			}
			g.now.copyFrom(&g.begun)
			for j := range g.best.x {
				n := g.best.x[j] - g.begun.x[j]
				if j == i {
					n--
				}
				g.put(int32(j), n) //nolint:gosec // bounded by the units
			}
			g.put(g.bestStep(1), 1) // the unit that was taken out can be put in again
			if g.s.compare(&g.now.score, &g.best.score) > 0 {
				g.now, g.best, better = g.best, g.now, true
			}
		}
	}
}

// compare is above 0 if a is the better score.
func (s *shape) compare(a, b *score) int {
	for _, c := range s.criteria {
		if x, y := a.value(c.aspect), b.value(c.aspect); x != y {
			if x > y != c.less {
				return 1
			}
			return -1
		}
	}
	return 0
}

// fill completes the set with the units of the lowest IDs.
func (g *greedy) fill(size int64) {
	g.best.copyFrom(&g.begun)
	left := size - g.begun.size
	for i := range g.best.x {
		n := min(left, g.high[i]-g.best.x[i])
		g.best.x[i] += n
		left -= n
	}
}
