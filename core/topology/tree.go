package topology

import (
	"math/bits"
	"slices"
)

// tree is the hierarchy of the devices, with two parts to a node; nodes come after those
// below them. In a hierarchy the score of a set is a sum: of what each unit adds, each pair
// of units by the node that joins them, and each NUMA node and physical device that the set
// uses. So the best set of each size in a node follows from those of its two parts.
type tree []treeNode

type treeNode struct {
	left, right int32 // -1 in a leaf
	device      int32 // of a leaf
	begin       int32 // the first of the nodes below it
	// weakest is the weakest link of a set with units of both parts.
	weakest int64
	// pair is what each pair of units in different parts adds, in a leaf each pair of
	// replicas; first what the first unit of a set adds, and above that of the nodes above.
	pair, first, above vector
	// place and physical are those of all devices below; -1 if they differ or are unknown.
	place, physical int32
}

// vector is a score in the order of the criteria, more being better.
type vector [8]int64

func (s *shape) vector(r score) (v vector) {
	for i, c := range s.criteria {
		if v[i] = r.value(c.aspect); c.less {
			v[i] = -v[i]
		}
	}
	return v
}

func (v vector) plus(w *vector, times int64) vector {
	for i := range v {
		v[i] += times * w[i]
	}
	return v
}

// newTree returns nil if the devices are no hierarchy: if their links are none, or devices
// of one NUMA node or of one physical device are not a part of it on their own.
func (s *shape) newTree() tree {
	used := uint64(0)
	for _, numa := range s.placeNodes() {
		if used&numa != 0 {
			return nil
		}
		used |= numa
	}
	all := make([]int32, len(s.devices))
	for d := range all {
		all[d] = int32(d) //nolint:gosec // bounded by the units
	}
	b := builder{s: s}
	if len(all) == 0 || !b.build(all) {
		return nil
	}
	return b.finish()
}

// placeNodes returns the NUMA nodes of each place.
func (s *shape) placeNodes() []uint64 {
	nodes := make([]uint64, s.places)
	for d, p := range s.place {
		if p >= 0 {
			nodes[p] = s.numa[d]
		}
	}
	return nodes
}

type builder struct {
	s     *shape
	nodes tree
}

// build appends the nodes of devices; false if they are no hierarchy.
func (b *builder) build(devices []int32) bool {
	if len(devices) == 1 {
		d := devices[0]
		leaf := score{repeats: 1, together: 1}
		if b.s.place[d] >= 0 {
			leaf.left = onePlace
		}
		b.nodes = append(b.nodes, treeNode{
			left: -1, right: -1, device: d, begin: int32(len(b.nodes)), weakest: noLink, pair: b.s.vector(leaf), //nolint:gosec // bounded by the units
			place: b.s.place[d], physical: b.s.physical[d],
		})
		return true
	}
	parts, least, ok := b.s.split(devices)
	if !ok {
		return false
	}
	if len(parts) == 1 {
		parts = nil
		for i := range devices {
			parts = append(parts, devices[i:i+1])
		}
	}
	return b.join(parts, least, b.s.place, b.s.physical)
}

// join appends the nodes of parts whose links to each other are equal. Parts with the same
// value in by, such as those on the same NUMA nodes, are joined first.
func (b *builder) join(parts [][]int32, least int64, by ...[]int32) bool {
	if len(parts) == 1 {
		return b.build(parts[0])
	}
	if len(by) == 0 {
		middle := len(parts) / 2
		if !b.join(parts[:middle], least) {
			return false
		}
		left := int32(len(b.nodes) - 1) //nolint:gosec // bounded by the units
		if !b.join(parts[middle:], least) {
			return false
		}
		b.nodes = append(b.nodes, b.both(left, int32(len(b.nodes)-1), least)) //nolint:gosec // bounded by the units
		return true
	}
	groups := [][][]int32{}
	index := map[int32]int{}
	for _, part := range parts {
		value := by[0][part[0]]
		i, known := index[value]
		if !known || value < 0 || !sameOf(part, by[0]) {
			i = len(groups)
			groups = append(groups, nil)
			if value >= 0 && sameOf(part, by[0]) {
				index[value] = i
			}
		}
		groups[i] = append(groups[i], part)
	}
	if len(groups) == 1 || len(groups) == len(parts) {
		return b.join(parts, least, by[1:]...)
	}
	return b.groups(groups, least, by[1:])
}

// groups appends the nodes of groups of parts.
func (b *builder) groups(groups [][][]int32, least int64, by [][]int32) bool {
	if len(groups) == 1 {
		return b.join(groups[0], least, by...)
	}
	middle := len(groups) / 2
	if !b.groups(groups[:middle], least, by) {
		return false
	}
	left := int32(len(b.nodes) - 1) //nolint:gosec // bounded by the units
	if !b.groups(groups[middle:], least, by) {
		return false
	}
	b.nodes = append(b.nodes, b.both(left, int32(len(b.nodes)-1), least)) //nolint:gosec // bounded by the units
	return true
}

// both returns the node above two others.
func (b *builder) both(left, right int32, least int64) treeNode {
	l, r := &b.nodes[left], &b.nodes[right]
	n := treeNode{left: left, right: right, begin: l.begin, weakest: least, place: -1, physical: -1}
	pair := score{links: least, left: least}
	if l.place == r.place && l.place >= 0 {
		n.place = l.place
		pair.left += onePlace
	}
	if l.physical == r.physical && l.physical >= 0 {
		n.physical = l.physical
		pair.together = 1
	}
	n.pair = b.s.vector(pair)
	return n
}

// finish adds what the first unit of a node adds; nil if a NUMA node or a physical device
// is in several parts of the tree.
func (b *builder) finish() tree {
	tops := map[[2]int32]bool{}
	top := func(kind, value, above int32) (is, ok bool) {
		if value < 0 || value == above {
			return false, true
		}
		key := [2]int32{kind, value}
		ok, tops[key] = !tops[key], true
		return true, ok
	}
	nodes, places := b.nodes, b.s.placeNodes()
	up := make([]int32, len(nodes))
	for i := range up {
		up[i] = -1
	}
	for i, n := range nodes {
		if n.left >= 0 {
			up[n.left], up[n.right] = int32(i), int32(i) //nolint:gosec // bounded by the units
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		n, above := &nodes[i], treeNode{place: -1, physical: -1}
		if up[i] >= 0 {
			above = nodes[up[i]]
		}
		n.above = above.above.plus(&above.first, 1)
		first := score{}
		isPlace, ok := top(0, n.place, above.place)
		isPhysical, alsoOK := top(1, n.physical, above.physical)
		if !ok || !alsoOK {
			return nil
		}
		if isPlace {
			first.unknown = int64(bits.OnesCount64(places[n.place]))
		}
		if isPhysical {
			first.physical = 1
		}
		n.first = b.s.vector(first)
	}
	return nodes
}

// treeCall is the working memory of one choice.
type treeCall struct {
	// low and high bound how many units of a node are chosen, remain counts its units that
	// are available, and unit is what each unit of a leaf adds.
	low, high, remain []int64
	unit              []vector
	// splits has for each node and number of units how many are of the left part, from at
	// on; values are the best scores of the nodes that have yet to be joined, by number.
	splits, at     []int32
	values, joined []vector
}

// choose marks the best set. Sets in one node are compared by the node's weakest link,
// which is that of a set with units of both parts: one within a part is found there.
func (w *treeCall) choose(s *shape, c *call, size int64) {
	w.splits, w.values = w.splits[:0], w.values[:0]
	w.at = grow(w.at, len(s.tree))
	root := len(s.tree) - 1
	weakest := s.vector(score{weakest: 1})
	best, bestNode := vector{}, -1
	for i := range s.tree {
		n := &s.tree[i]
		w.at[i] = int32(len(w.splits)) //nolint:gosec // bounded by units and depth
		if n.left < 0 {
			w.leaf(n, i)
		} else {
			w.join(n, i)
		}
		if w.low[i] == w.low[root] && w.high[i] >= size {
			v := w.values[len(w.values)-1].plus(&n.above, 1)
			v = v.plus(&weakest, n.weakest)
			better := slices.Compare(v[:], best[:])
			// Of equal sets it is that with the lower IDs: the first, or that of a node above.
			if bestNode < 0 || better > 0 || better == 0 && bestNode >= int(n.begin) {
				best, bestNode = v, i
			}
		}
	}
	w.mark(s, c, bestNode, size)
}

// maxTreeWork bounds the work for a choice in a hierarchy, in scores of about 30 ns:
// 4,096 devices are always within it.
const maxTreeWork = 1 << 24

// prepare counts the units of each node and what a unit of each device adds, and reports
// whether choose may be called: it is not if there is too much to compare.
func (w *treeCall) prepare(s *shape, c *call, size int64) bool {
	nodes := len(s.tree)
	w.low, w.high, w.remain = grow(w.low, nodes), grow(w.high, nodes), grow(w.remain, nodes)
	w.unit = grow(w.unit, nodes)
	s.countBusy(c)
	low, high, remain := make([]int64, len(s.devices)), make([]int64, len(s.devices)), make([]int64, len(s.devices))
	for u, state := range c.state {
		d := s.device[u]
		if state != 0 {
			remain[d]++
		}
		if state == must {
			low[d]++
		}
		if state == must || state == free {
			high[d]++
		}
	}
	if s.levels() {
		level := evenLevel(low, high, size)
		for d := range low {
			low[d], high[d] = max(low[d], min(high[d], level)), max(low[d], min(high[d], level+1))
		}
	}
	work := int64(0)
	for i, n := range s.tree {
		if n.left < 0 {
			w.low[i], w.high[i], w.remain[i] = low[n.device], min(size, high[n.device]), remain[n.device]
			continue
		}
		w.low[i] = w.low[n.left] + w.low[n.right]
		w.high[i] = min(size, w.high[n.left]+w.high[n.right])
		w.remain[i] = w.remain[n.left] + w.remain[n.right]
		work += (w.high[n.left] - w.low[n.left] + 1) * (w.high[n.right] - w.low[n.right] + 1)
	}
	if work > maxTreeWork {
		return false
	}
	// What remains loses the pairs of a chosen unit with all others; pairs of two chosen
	// units are added again by the nodes.
	lost := make([]int64, nodes)
	left := s.leftOf
	for i := len(s.tree) - 1; i >= 0; i-- {
		n := &s.tree[i]
		if n.left >= 0 {
			lost[n.left] = lost[i] + left(n)*w.remain[n.right]
			lost[n.right] = lost[i] + left(n)*w.remain[n.left]
			continue
		}
		r := score{load: c.busy[s.busyGroup(n.device)], left: -lost[i] - left(n)*(w.remain[i]-1)}
		if s.numa[n.device] == 0 {
			r.unknown = 1
		}
		w.unit[i] = s.vector(r)
	}
	return true
}

// leftOf returns the points of a pair that remains.
func (s *shape) leftOf(n *treeNode) int64 {
	for i, c := range s.criteria {
		if c.aspect == LinksLeft {
			return n.pair[i]
		}
	}
	return 0
}

// leaf appends the scores of the numbers of units of one device.
func (w *treeCall) leaf(n *treeNode, i int) {
	for k := w.low[i]; k <= w.high[i]; k++ {
		v := vector{}
		if k > 0 {
			v = n.first.plus(&w.unit[i], k)
			v = v.plus(&n.pair, pairs(k))
		}
		w.values = append(w.values, v)
	}
}

// join replaces the scores of a node's parts by its own. Of equal sets it is that with more
// units of the left part, whose IDs are lower.
func (w *treeCall) join(n *treeNode, i int) {
	lowLeft, lowRight := w.low[n.left], w.low[n.right]
	highLeft, highRight := w.high[n.left], w.high[n.right]
	right := w.values[len(w.values)-int(highRight-lowRight)-1:]
	left := w.values[len(w.values)-len(right)-int(highLeft-lowLeft)-1:][:highLeft-lowLeft+1]
	w.joined = w.joined[:0]
	for k := w.low[i]; k <= w.high[i]; k++ {
		var best vector
		from, to := max(lowLeft, k-highRight), min(highLeft, k-lowRight)
		split := int32(-1)
		for l := to; l >= from; l-- {
			v := left[l-lowLeft].plus(&right[k-l-lowRight], 1)
			v = v.plus(&n.pair, l*(k-l))
			if split < 0 || slices.Compare(v[:], best[:]) > 0 {
				best, split = v, int32(l) //nolint:gosec // bounded by the units
			}
		}
		if k > 0 {
			best = best.plus(&n.first, 1)
		}
		w.splits, w.joined = append(w.splits, split), append(w.joined, best)
	}
	w.values = append(w.values[:len(w.values)-len(right)-len(left)], w.joined...)
}

// mark chooses the best k units of a node.
func (w *treeCall) mark(s *shape, c *call, node int, k int64) {
	if n := &s.tree[node]; n.left >= 0 {
		l := int64(w.splits[int64(w.at[node])+k-w.low[node]])
		w.mark(s, c, int(n.left), l)
		w.mark(s, c, int(n.right), k-l)
	} else if k > 0 {
		c.markUnits(s.unitsOf[n.device], k)
	}
}
