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

// Method is how a choice was found.
type Method string

// The methods.
const (
	// Enumeration compares all sets: no other set is better.
	Enumeration Method = "enumeration"
	// Hierarchy joins the best sets of the parts of a hierarchy: no other set is better.
	Hierarchy Method = "hierarchy"
	// Greedy builds sets unit by unit: another set may be better.
	Greedy Method = "greedy"
	// Order is no choice: the policy is [None], or all that is available was asked for.
	Order Method = "order"
)

// Result is a choice. It never changes.
type Result struct {
	// IDs are sorted. All of Must are among them, up to the size.
	IDs []string
	// Missing is how many fewer units there are than were requested: no more were available.
	Missing int
	// Parts are what the policy compares of the choice, in this order.
	Parts []Part
	// Left is the number of units that remain: available, healthy and not chosen.
	Left   int
	Method Method
}

// Exact reports whether no other set of this size is better.
func (r *Result) Exact() bool { return r.Method != Greedy }

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
	foreign []string // required IDs that are no units
	// counts and remain are indexed by device, parts by physical device, nodes by place, busy
	// by busyGroup.
	counts, remain, parts, nodes, busy []int64
	table                              tableCall
	tree                               treeCall
	greedy                             greedy
}

// Choose answers a request. Any request has an answer; see [Result].
func (t *Topology) Choose(r Request) Result { return t.without(r, "") }

// without returns a choice that does not have one of the units.
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
	result := Result{Missing: wanted - size, Method: Order}
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
	case t.table != nil:
		result.Method = Enumeration
		t.table.choose(t.shape, c, size)
	case t.tree != nil && c.tree.prepare(t.shape, c, int64(size)):
		result.Method = Hierarchy
		c.tree.choose(t.shape, c, int64(size))
	default:
		result.Method = Greedy
		c.greedy.choose(t.shape, c, int64(size))
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
	r.Parts = make([]Part, len(t.criteria))
	score := t.scoreOf(c)
	for i, c := range t.criteria {
		r.Parts[i] = Part{c.aspect, score.value(c.aspect), c.less}
		if r.Parts[i].Value == noLink {
			r.Parts[i].Value = -1
		}
	}
	for _, state := range c.state {
		if state != 0 && state&chosen == 0 {
			r.Left++
		}
	}
}

// grow returns a slice of n elements, the old one if it is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
