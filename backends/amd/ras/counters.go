package ras

// Count is a number of errors that may be unknown.
type Count struct {
	N     uint64
	Known bool
}

// Counters are what a card counted. All but XGMI are the driver's own numbers,
// which begin at 0 when it is loaded again.
type Counters struct {
	// Blocks are the errors of each block of the card that counts any, by the
	// driver's name of it: "umc" (memory), "gfx", "sdma", "mmhub", "xgmi_wafl" …
	Blocks map[string]Errors
	// Pages are the retired pages of the card's memory.
	Pages Pages
	// XGMI is the number of errors of the XGMI links since it was last read, by any process:
	// the driver clears it with each read.
	XGMI Count
	// Busy: the card is in reset, so the driver does not count now. Unknown counts of blocks
	// are not lost.
	Busy bool
}

// Errors are the errors of a block.
type Errors struct {
	// Uncorrectable errors lost data.
	Uncorrectable Count
	// Correctable errors did no harm.
	Correctable Count
	// Deferred errors were found in data that no program has used yet; older kernels do
	// not count them.
	Deferred Count
}

// Pages are the bad pages of memory.
type Pages struct {
	// Known: the driver has a list.
	Known bool
	// Retired pages are reserved, so that no program gets them ("R"). Pending ones will be
	// reserved with the next reset ("P"). Failed ones are in use and could not be reserved
	// ("F").
	Retired, Pending, Failed uint64
}

// Uncorrectable returns the sum over the blocks that are known.
func (c Counters) Uncorrectable() Count {
	var all Count
	for _, errors := range c.Blocks {
		all = all.Plus(errors.Uncorrectable)
	}
	return all
}

// Plus returns the sum, which is known if one of the two is. It does not exceed the largest number.
func (c Count) Plus(other Count) Count {
	sum := Count{N: c.N + other.N, Known: c.Known || other.Known}
	if sum.N < c.N {
		sum.N = 1<<64 - 1
	}
	return sum
}
