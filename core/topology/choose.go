package topology

import (
	"slices"
)

// Request asks for units by their IDs.
type Request struct {
	// Available are those that may be chosen. Unhealthy and unknown ones are not.
	Available []string
	// Must are those that the choice must have, whatever they are. They are available.
	Must []string
	// Size is how many are wanted, those of Must among them.
	Size int
}

// Method says how a choice was found.
type Method string

// The methods.
const (
	// Hierarchy is exact for any number of units.
	Hierarchy Method = "hierarchy"
	// Enumeration is exact: all sets were compared.
	Enumeration Method = "enumeration"
	// Search is exact if it came to its end before the time limit.
	Search Method = "search"
	// Order is no choice: the policy is [None], or all that is available was asked for.
	Order Method = "order"
)

// Result is a choice. It never changes.
type Result struct {
	// IDs are sorted. All of Must are among them, up to the size.
	IDs []string
	// Missing is how many fewer they are than were asked for: no more were available.
	Missing int
	Score   Score
	Left    Left
	Method  Method
	// Exact: no other set of this size is better.
	Exact bool
	// Missed is how much greater the sum of the links of another set might be, at
	// most. It is 0 for an exact choice. It may be 0 for one that is not: then what is
	// compared after the links might be better.
	Missed int64
}

// Score is what a choice counts for, part by part. Which part counts when is the
// policy's to say.
type Score struct {
	// Links is the sum of the weights of all pairs of different devices.
	Links int64
	// Weakest is the least of those weights; -1 if there is no pair.
	Weakest int64
	// NUMANodes is how many there are; a device whose node is unknown has one of its
	// own.
	NUMANodes int
	// Physical is how many physical devices there are, and Devices how many devices.
	Physical, Devices int
	// Together is how many pairs of units are on one physical device.
	Together int64
	// Repeats is how many pairs of replicas have the same device.
	Repeats int64
	// Load is the sum, over devices or physical devices as the policy says, of the
	// squares of how many units are in use, the chosen ones among them.
	Load int64
}

// Left is what remains available, healthy and not chosen.
type Left struct {
	Units int
	// Pairs, Fours and Eights are how many good sets of these sizes could be made of
	// it side by side; -1 where nobody counts them.
	Pairs, Fours, Eights int
	// Near is how many pairs of it are good, each unit in as many as it can; -1 where
	// nobody counts them.
	Near int
}

// The states of a unit in a call.
const (
	free uint8 = 1 << iota
	must
	// banned units are available, and yet not to be chosen.
	banned
	chosen
)

// call is the memory of one choice, used again by the next one.
type call struct {
	state   []uint8
	foreign []string // what must be included and is no unit
	work    work
	counts  []int64
	touched []int32
	nodes   []bool
	subset  subsetCall
	search  searchCall
}

// Choose answers a request. Any request has an answer; see [Result].
func (t *Topology) Choose(r Request) Result { return t.without(r, "") }

// without is a choice that must not have one of the units.
func (t *Topology) without(r Request, ban string) Result {
	c, ok := t.scratch.Get().(*call)
	if !ok {
		c = &call{}
	}
	defer t.scratch.Put(c)
	available, included := t.read(c, r)
	if i, ok := t.index[ban]; ok && c.state[i] == free {
		c.state[i] |= banned
		available--
	}
	wanted := max(0, r.Size)
	size := min(wanted, available+len(c.foreign))
	result := Result{Missing: wanted - size, Method: Order, Exact: true}
	c.foreign = c.foreign[:min(len(c.foreign), size)]
	size -= len(c.foreign)
	switch {
	case size <= included || size == available || t.options.Policy == None:
		for i := range c.state {
			c.take(int32(i), must, &size) //nolint:gosec // bounded by the units
		}
		for i := range c.state {
			c.take(int32(i), free, &size) //nolint:gosec // bounded by the units
		}
	case t.tree != nil && t.tree.affordable(t.shape, int64(size), int64(available)):
		result.Method = Hierarchy
		t.tree.choose(t.shape, c, int64(size))
	case t.subsets != nil:
		result.Method = Enumeration
		t.subsets.choose(t.shape, c, size)
	default:
		result.Method = Search
		result.Exact, result.Missed = t.searcher().choose(t.shape, c, size)
	}
	t.finish(c, &result)
	return result
}

// read marks the units of a request. It counts those that can be chosen, and of
// them those that must be.
func (t *Topology) read(c *call, r Request) (available, included int) {
	c.state = grow(c.state, len(t.units))
	clear(c.state)
	c.foreign = c.foreign[:0]
	for _, id := range r.Must {
		if i, ok := t.index[id]; !ok {
			c.foreign = append(c.foreign, id)
		} else if c.state[i] == 0 {
			c.state[i] = must
			available++
			included++
		}
	}
	for _, id := range r.Available {
		if i, ok := t.index[id]; ok && c.state[i] == 0 && t.healthy[i] {
			c.state[i] = free
			available++
		}
	}
	slices.Sort(c.foreign)
	c.foreign = slices.Compact(c.foreign)
	return available, included
}

// take chooses a unit of a state if any more are wanted.
func (c *call) take(u int32, state uint8, wanted *int) {
	if *wanted > 0 && c.state[u] == state {
		c.state[u] |= chosen
		*wanted--
	}
}

// markUnits chooses x of units that are alike: those that must be, then the first.
func (c *call) markUnits(units []int32, x int64) {
	wanted := int(x)
	for _, u := range units {
		c.take(u, must, &wanted)
	}
	for _, u := range units {
		c.take(u, free, &wanted)
	}
}

// finish makes the result of what is chosen.
func (t *Topology) finish(c *call, r *Result) {
	n := len(c.foreign)
	for _, state := range c.state {
		if state&chosen != 0 {
			n++
		}
	}
	r.IDs = make([]string, 0, n)
	for i, state := range c.state {
		if state&chosen != 0 {
			r.IDs = append(r.IDs, t.units[i].ID)
		}
	}
	if len(c.foreign) > 0 {
		r.IDs = append(r.IDs, c.foreign...)
		slices.Sort(r.IDs)
	}
	r.Score = t.score(c)
	r.Left = t.left(c)
}
