package topology

import (
	"cmp"
	"slices"
)

// tree is a hierarchy of units: every set that a score counts by (devices that are
// linked with some weight or more, physical devices, NUMA nodes) is a node, and two
// nodes contain each other or have nothing in common. So each part of a score is a
// sum over the nodes of what follows from how many units of the node are chosen,
// and the best choice is found node by node from the leaves up.
type tree struct {
	// nodes have their parents before them; the first has all units.
	nodes []node
	// leaf is the node of each unit, one without children.
	leaf []int32
}

// node is one set of units.
type node struct {
	parent   int32 // -1 for the first
	children []int32
	// units are those of a leaf.
	units []int32
	size  int64 // units in all
	// weight is that of the links among different devices of it; top says that it is
	// where such links meet, or one device.
	weight int64
	top    bool
	gains
}

// gains say what x chosen units of a node add to a score.
type gains struct {
	// links is added for each pair.
	links int64
	// numa is subtracted once if there is any unit, numaEach for each.
	numa, numaEach int64
	// physical: these are one physical device; physicalEach: each unit is one.
	physical, physicalEach bool
	// device: these are replicas of one device.
	device bool
	// load counts how full the node is; loadEach: each unit counts by itself.
	load, loadEach bool
	// goals are the sizes whose good sets are those inside of this node.
	goals []int
}

// family is a set of units with what it is.
type family struct {
	units []int32
	mark  func(*node)
	numa  bool
}

// newTree is nil if the sets are no hierarchy.
func (s *shape) newTree(clusters []cluster) *tree {
	if !s.numaDisjoint() {
		return nil
	}
	return s.treeOf(s.families(clusters), true)
}

// newCeiling is a tree in which no choice has a lower rank than it really has: where
// links are no hierarchy the weights in it are no less, and NUMA nodes do not count
// where they are none. It is nil if physical devices are none.
func (s *shape) newCeiling(clusters []cluster) *tree {
	if t := s.newTree(clusters); t != nil {
		return t
	}
	families := slices.DeleteFunc(s.families(clusters), func(f family) bool { return f.numa })
	return s.treeOf(families, false)
}

func (s *shape) treeOf(families []family, numa bool) *tree {
	slices.SortStableFunc(families, func(a, b family) int {
		return cmp.Or(cmp.Compare(len(b.units), len(a.units)), cmp.Compare(a.units[0], b.units[0]))
	})
	t := &tree{leaf: make([]int32, len(s.units))}
	for i := range t.leaf {
		t.leaf[i] = -1
	}
	for _, f := range families {
		if !t.add(f) {
			return nil
		}
	}
	if len(t.nodes) == 0 {
		return t
	}
	t.weigh()
	s.addLeaves(t, numa)
	t.order()
	s.markGoals(t)
	return t
}

// numaDisjoint reports whether no NUMA node is in two sets.
func (s *shape) numaDisjoint() bool {
	seen := map[int]bool{}
	for _, set := range s.numaSets {
		for _, n := range set {
			if seen[n] {
				return false
			}
			seen[n] = true
		}
	}
	return true
}

// families are all sets of two units or more, and that of all units; the first unit
// of each is its lowest.
func (s *shape) families(clusters []cluster) []family {
	of := make([][]int32, len(s.devices))
	parts := make([][]int32, s.physicals)
	nodes := make([][]int32, len(s.numaSets))
	for i := range s.units {
		u, d := int32(i), s.device[i] //nolint:gosec // bounded by the units
		of[d] = append(of[d], u)
		parts[s.physical[d]] = append(parts[s.physical[d]], u)
		if set := s.numa[d]; set >= 0 {
			nodes[set] = append(nodes[set], u)
		}
	}
	var all []family
	for _, c := range clusters {
		var units []int32
		for _, d := range c.devices {
			units = append(units, of[d]...)
		}
		all = append(all, family{units: units, mark: func(n *node) { n.top, n.weight = true, c.weight }})
	}
	byDevice := s.options.Policy == BestLinks && s.replicas
	for set, units := range nodes {
		if len(units) > 1 {
			cost := s.numaCost(int32(set)) //nolint:gosec // bounded by the units
			all = append(all, family{units: units, mark: func(n *node) { n.numa = cost }, numa: true})
		}
	}
	for _, units := range parts {
		if len(units) > 1 {
			all = append(all, family{units: units, mark: func(n *node) { n.physical, n.load = true, n.load || !byDevice }})
		}
	}
	for _, units := range of {
		if len(units) > 1 {
			all = append(all, family{units: units, mark: func(n *node) { n.device, n.load = true, n.load || byDevice }})
		}
	}
	return all
}

// add makes a set a node, or marks the one that is the same set; families come by
// size. It is false if the set is partly inside of another.
func (t *tree) add(f family) bool {
	owner := t.leaf[f.units[0]]
	for _, u := range f.units {
		if t.leaf[u] != owner {
			return false
		}
	}
	if owner < 0 || t.nodes[owner].size != int64(len(f.units)) {
		t.nodes = append(t.nodes, node{parent: owner, size: int64(len(f.units)), weight: -1})
		owner = int32(len(t.nodes) - 1) //nolint:gosec // bounded by the units
		for _, u := range f.units {
			t.leaf[u] = owner
		}
	}
	f.mark(&t.nodes[owner])
	return true
}

// weigh gives each node the weight of the links in it, and each pair in it what it
// is worth more than in the node above. Replicas of one device are no links.
func (t *tree) weigh() {
	for i := range t.nodes {
		n := &t.nodes[i]
		above := int64(0)
		if n.parent >= 0 {
			above = t.nodes[n.parent].weight
		}
		switch {
		case n.device:
			n.weight, n.top = 0, true
		case n.weight < 0:
			n.weight = above
		}
		n.links = n.weight - above
	}
}

// addLeaves puts the units that are directly in a node into leaves below it.
func (s *shape) addLeaves(t *tree, numa bool) {
	type key struct {
		owner int32
		numa  int64
	}
	inNUMA, inPart := make([]bool, len(t.nodes)), make([]bool, len(t.nodes))
	inLoad := make([]bool, len(t.nodes))
	for i, n := range t.nodes {
		inNUMA[i], inPart[i], inLoad[i] = n.numa > 0, n.physical, n.load
		if n.parent >= 0 {
			inNUMA[i] = inNUMA[i] || inNUMA[n.parent]
			inPart[i] = inPart[i] || inPart[n.parent]
			inLoad[i] = inLoad[i] || inLoad[n.parent]
		}
	}
	leaves := map[key]int32{}
	for u, owner := range t.leaf {
		k := key{owner: owner}
		if numa && !inNUMA[owner] {
			k.numa = s.numaCost(s.numa[s.device[u]])
		}
		leaf, ok := leaves[k]
		if !ok {
			leaf = int32(len(t.nodes)) //nolint:gosec // bounded by the units
			leaves[k] = leaf
			t.nodes = append(t.nodes, node{parent: owner, weight: t.nodes[owner].weight, gains: gains{
				numaEach: k.numa, physicalEach: !inPart[owner], loadEach: !inLoad[owner],
			}})
		}
		n := &t.nodes[leaf]
		n.units = append(n.units, int32(u)) //nolint:gosec // bounded by the units
		n.size++
		t.leaf[u] = leaf
	}
}

// order lists the children of every node by their first units.
func (t *tree) order() {
	first := make([]int32, len(t.nodes))
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		if len(n.units) > 0 {
			first[i] = n.units[0]
		} else {
			slices.SortFunc(n.children, func(a, b int32) int { return cmp.Compare(first[a], first[b]) })
			first[i] = first[n.children[0]]
		}
		if n.parent >= 0 {
			up := &t.nodes[n.parent]
			up.children = append(up.children, int32(i)) //nolint:gosec // bounded by the units
		}
	}
}

// markGoals finds, for every usual size, the greatest nodes in which every set of it
// is good.
func (s *shape) markGoals(t *tree) {
	for i, g := range s.goals {
		good := make([]bool, len(t.nodes))
		for j := range t.nodes {
			n := &t.nodes[j]
			if n.parent >= 0 && good[n.parent] {
				good[j] = true
				continue
			}
			if n.weight >= g.weight && len(n.units) == 0 && (!g.oneNUMA || t.oneNUMA(int32(j))) { //nolint:gosec // bounded by the units
				good[j] = true
				n.goals = append(n.goals, i)
			}
		}
	}
}

// oneNUMA reports whether all units of a node are on one and the same NUMA node.
func (t *tree) oneNUMA(i int32) bool {
	for ; i >= 0; i = t.nodes[i].parent {
		if n := t.nodes[i]; n.numa > 0 {
			return n.numa == 1
		}
	}
	return false
}

// maxWork bounds what a choice in a tree costs: about a tenth of a second. No
// resource that kubelet takes as a whole device for device comes near.
const maxWork = 1 << 25

// affordable reports whether an exact choice is within maxWork.
func (t *tree) affordable(s *shape, size, available int64) bool {
	return int64(len(s.units))*min(size, available-size+1) <= maxWork
}
