package topology

import (
	"math"
	"math/bits"
)

// Aspect names a part of a score.
type Aspect string

// The aspects, as the package comment explains them.
const (
	PhysicalDevices Aspect = "physicalDevices"
	PairsTogether   Aspect = "pairsTogether"
	RepeatedDevices Aspect = "repeatedDevices"
	SumOfLinks      Aspect = "sumOfLinks"
	WeakestLink     Aspect = "weakestLink"
	NUMANodes       Aspect = "numaNodes"
	LinksLeft       Aspect = "linksLeft"
	LoadOfDevices   Aspect = "load"
)

// criterion is a part of a score and whether more or less of it is better.
type criterion struct {
	aspect Aspect
	less   bool
}

// criteria returns the parts that are compared, in this order. Those that depend on the
// available units come last: linksLeft and load.
func (o Options) criteria(replicas bool) []criterion {
	links := []criterion{{SumOfLinks, false}, {WeakestLink, false}, {NUMANodes, true}}
	if o.WeakestFirst {
		links[0], links[1] = links[1], links[0]
	}
	var before, after []criterion
	switch {
	case o.Policy == None:
		return nil
	case o.Policy == Spread:
		before = []criterion{{PhysicalDevices, false}, {PairsTogether, true}, {RepeatedDevices, true}}
		after = []criterion{{LoadOfDevices, true}, {LinksLeft, false}}
	case o.Policy == Pack:
		before = []criterion{{PhysicalDevices, true}, {PairsTogether, false}, {RepeatedDevices, false}}
		after = []criterion{{LoadOfDevices, false}, {LinksLeft, false}}
	case replicas:
		before = []criterion{{RepeatedDevices, true}}
		after = []criterion{{LoadOfDevices, true}, {LinksLeft, false}}
	default:
		after = []criterion{{PhysicalDevices, true}, {LinksLeft, false}, {LoadOfDevices, false}}
	}
	return append(append(before, links...), after...)
}

// noLink is the weakest link of a set without pairs of different devices.
const noLink = math.MaxInt64

// score is the parts of a set's score.
type score struct {
	physical, together, repeats int64
	links, weakest              int64
	// nodes are the known NUMA nodes, unknown the number of units without one.
	nodes      uint64
	unknown    int64
	left, load int64
}

func (s *score) value(a Aspect) int64 {
	switch a {
	case PhysicalDevices:
		return s.physical
	case PairsTogether:
		return s.together
	case RepeatedDevices:
		return s.repeats
	case SumOfLinks:
		return s.links
	case WeakestLink:
		return s.weakest
	case NUMANodes:
		return int64(bits.OnesCount64(s.nodes)) + s.unknown
	case LinksLeft:
		return s.left
	case LoadOfDevices:
		return s.load
	}
	return 0
}

// onNode adds n units of some NUMA nodes.
func (s *score) onNode(nodes uint64, n int64) {
	if s.nodes |= nodes; nodes == 0 {
		s.unknown += n
	}
}

// pairs returns the number of pairs of n things.
func pairs(n int64) int64 { return n * (n - 1) / 2 }

// onePlace is the points of a remaining pair on the same NUMA nodes, in addition to its
// links: if backends report no links, the emptiest node is used up first.
const onePlace = 1

// busyGroup returns the group by which load is counted: the device if its replicas are
// shared, else the physical device.
func (s *shape) busyGroup(d int32) int32 {
	if s.replicas && s.options.Policy == BestLinks {
		return d
	}
	return s.physical[d]
}

// countBusy counts the units in use, which are neither available nor required, by
// busyGroup.
func (s *shape) countBusy(c *call) {
	c.busy = grow(c.busy, max(len(s.devices), s.physicals))
	clear(c.busy)
	for u, state := range c.state {
		if state == 0 {
			c.busy[s.busyGroup(s.device[u])]++
		}
	}
}

// scoreOf returns the score of the chosen units.
func (s *shape) scoreOf(c *call) (r score) {
	c.counts, c.remain = grow(c.counts, len(s.devices)), grow(c.remain, len(s.devices))
	clear(c.counts)
	clear(c.remain)
	c.parts, c.nodes = grow(c.parts, s.physicals), grow(c.nodes, s.places)
	clear(c.parts)
	clear(c.nodes)
	s.countBusy(c)
	different := int64(0)
	for u, state := range c.state {
		d := s.device[u]
		switch {
		case state&chosen != 0:
			c.counts[d]++
			r.onNode(s.numa[d], 1)
			r.load += c.busy[s.busyGroup(d)]
			r.together += c.parts[s.physical[d]]
			if c.parts[s.physical[d]]++; c.parts[s.physical[d]] == 1 {
				r.physical++
			}
		case state != 0:
			c.remain[d]++
			if at := s.place[d]; at >= 0 {
				r.left += c.nodes[at] * onePlace
				c.nodes[at]++
			}
		}
	}
	linked := int64(0)
	r.weakest = noLink
	total := int64(0)
	for i := range s.devices {
		x := c.counts[i]
		r.repeats += pairs(x)
		different += x * total
		total += x
		for _, n := range s.graph[i] {
			if int(n.device) > i {
				break
			}
			r.links += n.value * x * c.counts[n.device]
			r.left += n.value * c.remain[i] * c.remain[n.device]
			if x*c.counts[n.device] > 0 {
				r.weakest = min(r.weakest, n.value)
				linked += x * c.counts[n.device]
			}
		}
	}
	if linked < different {
		r.weakest = 0 // a pair without a link
	}
	return r
}
