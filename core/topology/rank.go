package topology

import "math"

// rank is a score as it is compared: part by part, and more is better. All parts
// but the weakest link are sums over sets of units; so ranks of parts of a choice
// can be added.
type rank struct {
	// sharing is what the policy says of physical devices before it looks at links;
	// even is how evenly.
	sharing, even int64
	links         int64
	numa          int64
	// load comes before what is left, or in rest after it.
	load, left, rest int64
	// near is how many good pairs are left, each unit in several.
	near int64
}

// Parts of one int64 are so far apart that no sum reaches the next: there are less
// than 2^31 pairs among the 65,536 units that a backend has, and than 2^33 squares.
const (
	evenShift = 31
	restShift = 33
	leftShift = 20
)

func (a rank) plus(b rank) rank {
	return rank{a.sharing + b.sharing, a.even + b.even, a.links + b.links, a.numa + b.numa, a.load + b.load, a.left + b.left, a.rest + b.rest, a.near + b.near}
}

func (a rank) minus(b rank) rank {
	return rank{a.sharing - b.sharing, a.even - b.even, a.links - b.links, a.numa - b.numa, a.load - b.load, a.left - b.left, a.rest - b.rest, a.near - b.near}
}

// nothing is worse than every rank.
var nothing = rank{sharing: math.MinInt64}

// better compares without the weakest link.
func (a rank) better(b rank) bool {
	switch {
	case a.sharing != b.sharing:
		return a.sharing > b.sharing
	case a.even != b.even:
		return a.even > b.even
	case a.links != b.links:
		return a.links > b.links
	}
	return a.betterBesideLinks(b)
}

// betterWith compares with the weakest links, in the order of the options.
func (o *Options) betterWith(a rank, weakestA int64, b rank, weakestB int64) bool {
	switch {
	case a.sharing != b.sharing:
		return a.sharing > b.sharing
	case a.even != b.even:
		return a.even > b.even
	case o.WeakestFirst && weakestA != weakestB:
		return weakestA > weakestB
	case a.links != b.links:
		return a.links > b.links
	case weakestA != weakestB:
		return weakestA > weakestB
	}
	return a.betterBesideLinks(b)
}

// betterBesideLinks compares what counts after the links.
func (a rank) betterBesideLinks(b rank) bool {
	switch {
	case a.numa != b.numa:
		return a.numa > b.numa
	case a.load != b.load:
		return a.load > b.load
	case a.left != b.left:
		return a.left > b.left
	case a.near != b.near:
		return a.near > b.near
	}
	return a.rest > b.rest
}

// onPhysical is what x units of one physical device count for.
func (o *Options) onPhysical(r *rank, x int64) {
	if x == 0 {
		return
	}
	switch o.Policy {
	case Spread:
		r.sharing++
		r.even -= pairs(x) << evenShift
	case Pack:
		r.sharing--
		r.even += pairs(x) << evenShift
	default:
		r.rest -= 1 << restShift
	}
}

// onDevice is what x replicas of one device count for.
func (o *Options) onDevice(r *rank, x int64) {
	switch o.Policy {
	case Spread:
		r.even -= pairs(x)
	case Pack:
		r.even += pairs(x)
	default:
		r.sharing -= pairs(x)
	}
}

// onLoad is what x more units count for where busy are in use.
func (s *shape) onLoad(r *rank, busy, x int64) {
	grows := (busy+x)*(busy+x) - busy*busy
	switch {
	case s.options.Policy == Pack:
		r.load += grows
	case s.options.Policy == Spread || s.replicas:
		r.load -= grows
	default:
		r.rest += grows
	}
}

// onGoal is what x units less count for in a set of which remain are left.
func onGoal(r *rank, g goal, remain, x int64) {
	lost := (remain-x)/int64(g.size) - remain/int64(g.size)
	if g.size == 2 {
		r.near += pairs(remain-x) - pairs(remain)
	}
	for i, size := range usualSizes {
		if size == g.size {
			r.left += lost << (leftShift * (len(usualSizes) - 1 - i))
		}
	}
}

// rank is what x chosen units of a node count for there. remain are those of its
// units that are not in use, chosen or not.
func (n *node) rank(s *shape, remain, x int64) rank {
	var r rank
	if x == 0 {
		return r
	}
	r.links = n.links * pairs(x)
	r.numa = -n.numaEach * x
	if n.numa > 0 {
		r.numa -= n.numa
	}
	if n.physical {
		s.options.onPhysical(&r, x)
	}
	if n.physicalEach {
		var one rank
		s.options.onPhysical(&one, 1)
		r.sharing += one.sharing * x
		r.rest += one.rest * x
	}
	if n.device {
		s.options.onDevice(&r, x)
	}
	if n.load {
		s.onLoad(&r, n.size-remain, x)
	}
	if n.loadEach {
		var one rank
		s.onLoad(&one, 0, 1)
		r.load += one.load * x
		r.rest += one.rest * x
	}
	for _, i := range n.goals {
		onGoal(&r, s.goals[i], remain, x)
	}
	return r
}
