package topology

import (
	"math/bits"
	"slices"
)

func (s *shape) newSubsets() *subsets {
	n := len(s.units)
	b := &subsetBuilder{shape: s, n: n, sets: &subsets{
		first: make([]uint64, 1<<n), left: make([]uint16, 1<<n), near: make([]uint8, 1<<n), parts: make([]uint8, 1<<n),
		squares: make([]uint16, 1<<n), loadFirst: s.options.Policy != BestLinks || s.replicas, loadSign: 1,
	}}
	if s.options.Policy == Spread || s.options.Policy == BestLinks && s.replicas {
		b.sets.loadSign = -1
	}
	b.group()
	b.fill()
	if !s.replicas {
		s.goals = b.goals()
	}
	return b.sets
}

// subsetBuilder makes the tables.
type subsetBuilder struct {
	*shape
	n    int
	sets *subsets
	// parts and devices are the physical devices and devices with several units;
	// singles are the units that are one physical device each.
	parts, devices []uint32
	singles        uint32
	// weights are those of pairs of bits, -1 for replicas of one device.
	weights [maxSubset][maxSubset]int64
	// ranked are all weights, the least first.
	ranked []int64
	// weakest and numa are by set.
	weakest []int64
	numa    []int
}

// group finds units that belong together.
func (b *subsetBuilder) group() {
	byPart, byDevice := make([]uint32, b.physicals), make([]uint32, len(b.shape.devices))
	for u := range b.n {
		d := b.device[u]
		byPart[b.physical[d]] |= bit(b.n, u)
		byDevice[d] |= bit(b.n, u)
	}
	for _, set := range byPart {
		if bits.OnesCount32(set) > 1 {
			b.parts = append(b.parts, set)
		} else {
			b.singles |= set
		}
	}
	for _, set := range byDevice {
		if bits.OnesCount32(set) > 1 {
			b.devices = append(b.devices, set)
		}
	}
	b.sets.groups = b.parts
	if b.options.Policy == BestLinks && b.replicas {
		b.sets.groups = b.devices
	}
	for i := range b.n {
		for j := range b.n {
			u, v := b.device[b.n-1-i], b.device[b.n-1-j]
			if u == v {
				b.weights[i][j] = -1
				continue
			}
			b.weights[i][j] = b.graph.weight(u, v)
			b.ranked = append(b.ranked, b.weights[i][j])
		}
	}
	slices.Sort(b.ranked)
	b.ranked = slices.Compact(b.ranked)
}

// fill computes every set from the one without its lowest unit.
func (b *subsetBuilder) fill() {
	links := make([]int64, 1<<b.n)
	b.weakest, b.numa = make([]int64, 1<<b.n), make([]int, 1<<b.n)
	b.weakest[0] = noLink
	costs := b.numaCosts()
	for set := uint32(1); set < 1<<b.n; set++ {
		lowest := bits.TrailingZeros32(set)
		rest := set & (set - 1)
		sum, weakest := links[rest], b.weakest[rest]
		for other := rest; other != 0; other &= other - 1 {
			if w := b.weights[lowest][bits.TrailingZeros32(other)]; w >= 0 {
				sum += w
				weakest = min(weakest, w)
			}
		}
		links[set], b.weakest[set] = sum, weakest
		b.numa[set] = costs(set)
		b.sets.first[set] = b.pack(set, sum, weakest, b.numa[set])
	}
}

// pack makes one number of what is compared first.
func (b *subsetBuilder) pack(set uint32, links, weakest int64, numa int) uint64 {
	parts, inParts, repeats := bits.OnesCount32(set&b.singles), int64(0), int64(0)
	for _, part := range b.parts {
		x := bits.OnesCount32(set & part)
		inParts += pairs(int64(x))
		parts += min(x, 1)
	}
	for _, device := range b.devices {
		repeats += pairs(int64(bits.OnesCount32(set & device)))
	}
	b.sets.parts[set] = uint8(parts) //nolint:gosec // 16 at most
	squares := bits.OnesCount32(set)
	for _, g := range b.sets.groups { // x^2 = x + x(x-1)
		x := bits.OnesCount32(set & g)
		squares += x * (x - 1)
	}
	b.sets.squares[set] = uint16(squares) //nolint:gosec // 256 at most
	const most = 1<<pairBits - 1
	var key int64
	switch b.options.Policy {
	case Spread:
		key = int64(parts)<<(2*pairBits) | (most-inParts)<<pairBits | (most - repeats)
	case Pack:
		key = int64(maxSubset-parts)<<(2*pairBits) | inParts<<pairBits | repeats
	default:
		key = most - repeats
	}
	rank := int64(1<<weakestBits - 1)
	if weakest != noLink {
		i, _ := slices.BinarySearch(b.ranked, weakest)
		rank = int64(i)
	}
	if b.options.WeakestFirst {
		key = (key<<weakestBits|rank)<<linksBits | links
	} else {
		key = (key<<linksBits|links)<<weakestBits | rank
	}
	return uint64(key)<<numaBits | uint64(1<<numaBits-1-numa) //nolint:gosec // no sign
}

// numaCosts counts the NUMA nodes of a set.
func (b *subsetBuilder) numaCosts() func(set uint32) int {
	// Nodes that the same units have are one entry.
	nodes := make([]uint32, len(b.nodes))
	unknown := uint32(0)
	for u := range b.n {
		set := b.shape.numa[b.device[u]]
		if set < 0 {
			unknown |= bit(b.n, u)
			continue
		}
		for _, node := range b.numaSets[set] {
			nodes[node] |= bit(b.n, u)
		}
	}
	counts := map[uint32]int{}
	for _, units := range nodes {
		counts[units]++
	}
	type entry struct {
		units uint32
		count int
	}
	var entries []entry
	for units, count := range counts {
		entries = append(entries, entry{units, count})
	}
	return func(set uint32) int {
		cost := bits.OnesCount32(set & unknown)
		for _, e := range entries {
			if set&e.units != 0 {
				cost += e.count
			}
		}
		return cost
	}
}

// goals finds what good sets are, and how many of them fit into every set.
func (b *subsetBuilder) goals() []goal {
	var goals []goal
	for _, size := range usualSizes {
		if size > b.n {
			continue
		}
		g := goal{size: size, weight: -1}
		for set := range uint32(1) << b.n {
			if bits.OnesCount32(set) != size || b.weakest[set] < g.weight {
				continue
			}
			g.oneNUMA = b.numa[set] == 1 || g.oneNUMA && b.weakest[set] == g.weight
			g.weight = b.weakest[set]
		}
		goals = append(goals, g)
		good := b.good(g)
		b.count(g, good)
		if size == 2 {
			b.pairs(good)
		}
	}
	return goals
}

// good are the good sets by their lowest bits.
func (b *subsetBuilder) good(g goal) [][]uint32 {
	good := make([][]uint32, b.n)
	for set := range uint32(1) << b.n {
		if bits.OnesCount32(set) == g.size && b.weakest[set] >= g.weight && (!g.oneNUMA || b.numa[set] == 1) {
			lowest := bits.TrailingZeros32(set)
			good[lowest] = append(good[lowest], set)
		}
	}
	return good
}

// pairs counts the good pairs of every set.
func (b *subsetBuilder) pairs(good [][]uint32) {
	for set := uint32(1); set < 1<<b.n; set++ {
		n := b.sets.near[set&(set-1)]
		for _, pair := range good[bits.TrailingZeros32(set)] {
			if pair&^set == 0 {
				n++
			}
		}
		b.sets.near[set] = n
	}
}

// count finds, for every set, how many good sets it can be divided into: of those
// that have its lowest unit each is tried.
func (b *subsetBuilder) count(g goal, good [][]uint32) {
	most := make([]uint8, 1<<b.n)
	shift := leftBits(g.size)
	for set := uint32(1); set < 1<<b.n; set++ {
		n := most[set&(set-1)]
		full := uint8(bits.OnesCount32(set) / g.size) //nolint:gosec // 8 at most
		for _, one := range good[bits.TrailingZeros32(set)] {
			if n == full {
				break
			}
			if one&^set == 0 {
				n = max(n, 1+most[set^one])
			}
		}
		most[set] = n
		b.sets.left[set] |= uint16(n) << shift
	}
}

// leftBits is where the good sets of a size are in subsets.left.
func leftBits(size int) int {
	switch size {
	case 8:
		return 8
	case 4:
		return 4
	}
	return 0
}
