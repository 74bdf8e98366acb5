package ras

// Count is a number of errors that may be unknown.
type Count struct {
	N     uint64
	Known bool
}

// Counters are what a card counted. All but XGMI are the driver's own numbers,
// which begin anew when it is loaded again.
type Counters struct {
	// Blocks are the errors of each block of the card that counts any, by the
	// driver's name of it: "umc" (memory), "gfx", "sdma", "mmhub", "xgmi_wafl" …
	Blocks map[string]Errors
	// Pages are the retired pages of the card's memory.
	Pages Pages
	// XGMI is the number of errors of the XGMI links that the reader has seen. The
	// driver clears its own number each time it is read, by whomever.
	XGMI Count
	// PCIeReplays is the number of PCIe packets that were sent again.
	PCIeReplays Count
	// Busy says that the driver does not count just now, since the card is being
	// reset: counts of blocks that are unknown were not lost.
	Busy bool
}

// Errors are the errors of a block.
type Errors struct {
	// Uncorrectable errors lost data.
	Uncorrectable Count
	// Correctable errors did no harm.
	Correctable Count
	// Deferred errors were found in data that nobody has used yet; older kernels do
	// not count them.
	Deferred Count
}

// Pages are the pages of memory that the driver no longer uses, or would not.
type Pages struct {
	// Known says that the driver keeps a list.
	Known bool
	// Retired pages are reserved, so that nobody gets them ("R"); Pending ones will
	// be with the next reset ("P"); Failed ones could not be reserved, being in use
	// ("F").
	Retired, Pending, Failed uint64
	// Cut says that the list is longer than what is read: there are more pages.
	Cut bool
}

// Uncorrectable is the sum over the blocks that are known.
func (c Counters) Uncorrectable() Count {
	return c.sum(func(e Errors) Count { return e.Uncorrectable })
}

// Correctable is the sum over the blocks that are known.
func (c Counters) Correctable() Count { return c.sum(func(e Errors) Count { return e.Correctable }) }

// Deferred is the sum over the blocks that are known.
func (c Counters) Deferred() Count { return c.sum(func(e Errors) Count { return e.Deferred }) }

func (c Counters) sum(of func(Errors) Count) Count {
	var all Count
	for _, errors := range c.Blocks {
		if n := of(errors); n.Known {
			all = Count{N: add(all.N, n.N), Known: true}
		}
	}
	return all
}

// add stays at the largest number instead of starting again at 0.
func add(a, b uint64) uint64 {
	if a+b < a {
		return 1<<64 - 1
	}
	return a + b
}
