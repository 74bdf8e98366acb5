package topology

import "math/bits"

// maxTable is the largest number of units of which all sets are compared. There are 2^16
// sets of 16 units, and at most 12,870 of one size.
const maxTable = 16

// table has the score of every set of the units, without the parts that depend on the
// available units. Bit n-1-u of a set stands for unit u, so that of two sets of one size
// the greater number has the lower IDs.
type table struct {
	// first has the parts that are compared first, packed in the order of the criteria.
	first []uint64
	// left is the points of a set if it remains.
	left []int32
	// loadFirst: load is compared before linksLeft. loadSign is -1 if little load is better.
	loadFirst bool
	loadSign  int64
}

// The bits of the parts of table.first, 62 in all, and of load. A set has 120 pairs at
// most, each of sameDevice and 60 for a path at most. Units with more than 255 NUMA nodes in all are equal in
// that.
var partBits = map[Aspect]int{
	PhysicalDevices: 5, PairsTogether: 7, RepeatedDevices: 7, SumOfLinks: linksBits, WeakestLink: 14, NUMANodes: 8,
}

const (
	linksBits = 21
	loadBits  = 10
)

func bit(n, u int) uint32 { return 1 << (n - 1 - u) }

// newTable computes every set from the one without its lowest bit.
func (s *shape) newTable() *table {
	n := len(s.units)
	t := &table{first: make([]uint64, 1<<n), left: make([]int32, 1<<n), loadSign: 1}
	criteria := s.criteria[:0:0]
	for i, c := range s.criteria {
		if partBits[c.aspect] > 0 {
			criteria = append(criteria, c)
		} else if c.aspect == LoadOfDevices {
			t.loadFirst = s.criteria[i-1].aspect != LinksLeft
			if c.less {
				t.loadSign = -1
			}
		}
	}
	var values [maxTable][maxTable]int64
	for u := range n {
		for v := range u {
			values[u][v] = s.graph.value(s.device[u], s.device[v])
			values[v][u] = values[u][v]
		}
	}
	scores := make([]score, 1<<n)
	scores[0].weakest = noLink
	for set := uint32(1); set < 1<<n; set++ {
		rest := set & (set - 1)
		u := n - 1 - bits.TrailingZeros32(set)
		scores[set] = s.withUnit(&scores[rest], u, rest, &values[u])
		t.first[set] = pack(criteria, &scores[set])
		t.left[set] = int32(scores[set].left) //nolint:gosec // see linksBits
	}
	return t
}

// withUnit returns the score of a set and one more unit; left is that of the set if it
// remains. values are the points of the unit with each other one.
func (s *shape) withUnit(of *score, u int, set uint32, values *[maxTable]int64) score {
	r, d, n := *of, s.device[u], len(s.units)
	alone := true
	for ; set != 0; set &= set - 1 {
		v := n - 1 - bits.TrailingZeros32(set)
		e := s.device[v]
		if s.physical[d] == s.physical[e] {
			alone = false
			r.together++
		}
		if s.place[d] == s.place[e] && s.place[d] >= 0 {
			r.left += onePlace
		}
		if d == e {
			r.repeats++
			continue
		}
		value := values[v]
		r.links += value
		r.left += value
		r.weakest = min(r.weakest, value)
	}
	if alone {
		r.physical++
	}
	r.onNode(s.numa[d], 1)
	return r
}

// pack packs the parts of a score into one number; the greater one is better.
func pack(criteria []criterion, s *score) (key uint64) {
	for _, c := range criteria {
		width := partBits[c.aspect]
		most := int64(1)<<width - 1
		value := min(s.value(c.aspect), most)
		if c.less {
			value = most - value
		}
		key = key<<width | uint64(value) //nolint:gosec // no sign
	}
	return key
}

// tableCall is the working memory of one choice: the sets that 8 bits of a number stand
// for, and the load of each.
type tableCall struct {
	low, high         [256]uint32
	lowLoad, highLoad [256]int64
}

// choose marks the best of all sets of a size.
func (t *table) choose(s *shape, c *call, size int) {
	n := len(s.units)
	var included, open, remain uint32
	var load [maxTable]int64
	s.countBusy(c)
	for u, state := range c.state {
		switch {
		case state&must != 0:
			included |= bit(n, u)
		case state == free:
			open |= bit(n, u)
			load[n-1-u] = c.busy[s.busyGroup(s.device[u])]
		}
		if state != 0 {
			remain |= bit(n, u)
		}
	}
	w := &c.table
	w.spread(open, &load)
	wanted := size - bits.OnesCount32(included)
	best, bestFirst, bestLast := uint32(0), uint64(0), int64(0)
	limit := uint32(1) << bits.OnesCount32(open)
	for number := uint32(1)<<wanted - 1; number < limit; number = nextOfSize(number) {
		low, high := number&255, number>>8
		set := included | w.low[low] | w.high[high]
		first := t.first[set]
		if first < bestFirst {
			continue
		}
		last := t.last(remain&^set, w.lowLoad[low]+w.highLoad[high])
		if first > bestFirst || last >= bestLast || best == 0 { // of equal sets the last one, with the lowest IDs
			best, bestFirst, bestLast = set, first, last
		}
	}
	for u := range c.state {
		if best&bit(n, u) != 0 {
			c.state[u] |= chosen
		}
	}
}

// last returns the parts that are compared after table.first, packed.
func (t *table) last(left uint32, load int64) int64 {
	links := int64(t.left[left])
	if t.loadFirst {
		return t.loadSign*load<<linksBits + links
	}
	return links<<loadBits + t.loadSign*load
}

// spread prepares the set that a number stands for: the bits of the number are the units of
// open, in order.
func (w *tableCall) spread(open uint32, each *[maxTable]int64) {
	w.low[0], w.lowLoad[0], w.high[0], w.highLoad[0] = 0, 0, 0, 0
	for i := 0; open != 0; i++ {
		unit, load := open&-open, each[bits.TrailingZeros32(open)]
		open &= open - 1
		sets, loads := &w.low, &w.lowLoad
		if i >= 8 {
			sets, loads = &w.high, &w.highLoad
		}
		for n, first := 0, 1<<(i%8); n < first; n++ {
			sets[first+n], loads[first+n] = sets[n]|unit, loads[n]+load
		}
	}
}

// nextOfSize returns the next greater number with the same number of bits (Gosper); number
// is not 0.
func nextOfSize(number uint32) uint32 {
	lowest := number & -number
	up := number + lowest
	return up | (number^up)>>(2+bits.TrailingZeros32(number))
}
