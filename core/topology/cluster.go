package topology

import "slices"

// cluster is a set of devices any two of which are linked with weight or more.
type cluster struct {
	weight  int64
	devices []int32 // sorted
}

// clusters are those of a graph that is a hierarchy: of any three devices, the two
// worst weights are equal (an ultrametric). They contain each other or have nothing
// in common, and the weight of a pair is that of the smallest that contains both.
// The last one has all devices. ok is false if the graph is none; then
// the weight of a pair is that of the cluster or less (the clusters are those of single
// linkage).
//
// Links are added from the best to the worst. Where those of one weight join some
// sets, each device of one must have a link of just that weight to each of the
// others; it is enough to count them. The work is that of sorting the links.
func (g *graph) clusters() (all []cluster, ok bool) {
	n, ok := len(g.neighbors), true
	sets := newSets(n)
	for start := 0; start < len(g.edges); {
		end := start
		for end < len(g.edges) && g.edges[end].weight == g.edges[start].weight {
			e := g.edges[end]
			sets.join(e.a, e.b)
			end++
		}
		for _, root := range sets.joined {
			if sets.find(root) != root || sets.links[root] == 0 {
				continue // part of a greater one, or done
			}
			// The pairs inside, less those inside of what was joined.
			if pairs(int64(len(sets.members[root])))-sets.inner[root] != sets.links[root] {
				ok = false
			}
			all = append(all, cluster{g.edges[start].weight, slices.Sorted(slices.Values(sets.members[root]))})
			sets.links[root] = 0
		}
		sets.settle()
		start = end
	}
	if n > 0 && (len(all) == 0 || len(all[len(all)-1].devices) < n) {
		everything := make([]int32, n)
		for i := range everything {
			everything[i] = int32(i) //nolint:gosec // bounded by the units of a resource
		}
		all = append(all, cluster{devices: everything})
	}
	return all, ok
}

// pairs is how many pairs n things have.
func pairs(n int64) int64 { return n * (n - 1) / 2 }

// sets are disjoint sets of devices that are joined, weight by weight.
type sets struct {
	parent  []int32
	members [][]int32
	// inner are the pairs inside the sets that were joined at this weight, links the
	// links of this weight; both by root.
	inner, links []int64
	joined       []int32
}

func newSets(n int) *sets {
	s := &sets{parent: make([]int32, n), members: make([][]int32, n), inner: make([]int64, n), links: make([]int64, n)}
	for i := range s.parent {
		s.parent[i] = int32(i) //nolint:gosec // bounded by the units of a resource
		s.members[i] = []int32{int32(i)}
	}
	return s
}

func (s *sets) find(i int32) int32 {
	for s.parent[i] != i {
		s.parent[i] = s.parent[s.parent[i]]
		i = s.parent[i]
	}
	return i
}

// join adds a link of this weight.
func (s *sets) join(a, b int32) {
	a, b = s.find(a), s.find(b)
	if a == b {
		s.links[a]++
		return
	}
	if len(s.members[a]) < len(s.members[b]) {
		a, b = b, a
	}
	for _, root := range []int32{a, b} {
		if s.links[root] == 0 {
			s.inner[root] = pairs(int64(len(s.members[root])))
		}
	}
	s.parent[b] = a
	s.members[a] = append(s.members[a], s.members[b]...)
	s.inner[a] += s.inner[b]
	s.links[a] += s.links[b] + 1
	s.joined = append(s.joined, a)
}

// settle ends a weight.
func (s *sets) settle() {
	for _, root := range s.joined {
		s.links[root], s.inner[root] = 0, 0
	}
	s.joined = s.joined[:0]
}
