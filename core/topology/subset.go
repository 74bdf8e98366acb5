package topology

import "math/bits"

// maxSubset is up to how many units all sets are compared where the links are no
// hierarchy. There are 2^16 sets, of which 12,870 have one size at most.
const maxSubset = 16

// subsets has what every set of the units counts for, prepared: a choice only has to
// compare numbers. Bit n-1-u of a set stands for unit u, so that of two sets of one
// size the greater number has the lower IDs.
type subsets struct {
	// first is what is compared first, packed: how units share physical devices, then
	// links, NUMA nodes.
	first []uint64
	// left has, by what remains, the good sets of 8, of 4 and of 2, packed.
	left []uint16
	// near is how many good pairs a set has.
	near []uint8
	// parts is how many physical devices there are.
	parts []uint8
	// squares is the load of a set where nothing else is in use: the sum, over what load
	// is counted of, of the squares of how many units of it are in the set.
	squares []uint16
	// groups are what load is counted of, if that is more than one unit.
	groups []uint32
	// loadFirst: load is compared before what is left, else at last. loadSign is 1 where
	// more of it is better, else -1.
	loadFirst bool
	loadSign  int64
}

// The bits of subsets.first, from the lowest. A set has 120 pairs at most, of a
// weight up to MaxWeight; 1,024 NUMA nodes; 16 physical devices. The squares of how
// many of its units are in use sum up to 256 at most.
const (
	numaBits    = 11
	weakestBits = 7
	linksBits   = 27
	pairBits    = 7
	loadBits    = 10
	partBits    = 5
	setBits     = 12
)

// subsetCall is the memory of one choice.
type subsetCall struct {
	// low and high are the sets that 8 bits of a number stand for; lowLoad and highLoad
	// what those add to the load for the units that are in use beside them.
	low, high         [256]uint32
	lowLoad, highLoad [256]int64
}

func bit(n, u int) uint32 { return 1 << (n - 1 - u) }

// choose marks the best of all sets of a size.
func (x *subsets) choose(s *shape, c *call, size int) {
	n := len(s.units)
	var included, open, remain uint32
	for u, state := range c.state {
		switch {
		case state&must != 0:
			included |= bit(n, u)
		case state == free:
			open |= bit(n, u)
		}
		if state != 0 {
			remain |= bit(n, u)
		}
	}
	c.subset.spreadBits(open, x.busy(open, remain))
	wanted := size - bits.OnesCount32(included)
	best, bestFirst, bestLast := uint32(0), uint64(0), int64(0)
	limit := uint32(1) << bits.OnesCount32(open)
	for number := uint32(1)<<wanted - 1; number < limit; number = nextOfSize(number) {
		low, high := number&255, number>>8
		set := included | c.subset.low[low] | c.subset.high[high]
		first := x.first[set]
		if first < bestFirst {
			continue
		}
		last := x.last(set, remain&^set, c.subset.lowLoad[low]+c.subset.highLoad[high])
		if first > bestFirst || last >= bestLast || best == 0 { // of equals the last, with the lowest IDs
			best, bestFirst, bestLast = set, first, last
		}
	}
	for u := range c.state {
		if best&bit(n, u) != 0 {
			c.state[u] |= chosen
		}
	}
}

// busy is what each unit that can be chosen adds to the load for the units in use
// beside it, by its bit: (b+x)^2 = b^2 + x^2 + 2bx for b units in use and x chosen.
func (x *subsets) busy(open, remain uint32) (each [maxSubset]int64) {
	for _, g := range x.groups {
		inUse := bits.OnesCount32(g &^ remain)
		for units := g & open; units != 0; units &= units - 1 {
			each[bits.TrailingZeros32(units)] = 2 * int64(inUse)
		}
	}
	return each
}

// last is what is compared after subsets.first, packed. busy is what the units in use
// add to the load; what they add for those that must be chosen is the same for all
// sets, and left out.
func (x *subsets) last(set, remain uint32, busy int64) int64 {
	load := x.loadSign * (int64(x.squares[set]) + busy)
	left := int64(x.left[remain])<<pairBits | int64(x.near[remain])
	parts := maxSubset - int64(x.parts[set]) // of no account with the other policies: see first
	if x.loadFirst {
		return load<<(setBits+pairBits+partBits) + left<<partBits + parts
	}
	return (left<<partBits+parts)<<loadBits + load
}

// spreadBits prepares which set a number stands for: its bits are the units of open,
// in order; and what these units add to the load for those in use, which is given by
// bits of sets.
func (c *subsetCall) spreadBits(open uint32, busy [maxSubset]int64) {
	var at [maxSubset]uint32
	var load [maxSubset]int64
	for i := 0; open != 0; i++ {
		at[i], load[i] = open&-open, busy[bits.TrailingZeros32(open)]
		open &= open - 1
	}
	for i := 1; i < 256; i++ {
		lowest, rest := bits.TrailingZeros32(uint32(i)), i&(i-1) //nolint:gosec // 255 at most
		c.low[i], c.lowLoad[i] = c.low[rest]|at[lowest], c.lowLoad[rest]+load[lowest]
		c.high[i], c.highLoad[i] = c.high[rest]|at[lowest+8], c.highLoad[rest]+load[lowest+8]
	}
}

// nextOfSize is the next greater number with as many bits (Gosper); number is not 0.
func nextOfSize(number uint32) uint32 {
	lowest := number & -number
	up := number + lowest
	return up | (number^up)>>(2+bits.TrailingZeros32(number))
}

// sets is how many good sets of a size can be made of what is left, and how many good
// pairs it has.
func (x *subsets) sets(c *call, size int) (n, near int) {
	var remain uint32
	for u, state := range c.state {
		if state != 0 && state&chosen == 0 {
			remain |= bit(len(c.state), u)
		}
	}
	return int(x.left[remain]>>leftBits(size)) & 15, int(x.near[remain])
}
