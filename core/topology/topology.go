package topology

import (
	"cmp"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/core/inventory"
)

// Unit is one thing that can be chosen: a device, or a replica of one.
type Unit struct {
	// ID is unique in a topology, and what stands for the unit in requests.
	ID     string
	Device *inventory.Device
	// Healthy units alone are suggested.
	Healthy bool
}

// Topology is the units of one resource, prepared for choosing among them. It never
// changes, and is safe for concurrent use.
type Topology struct {
	*shape
	healthy []bool
}

// shape is what does not change with health.
type shape struct {
	options Options
	// units are sorted by ID: this is the order in which units are chosen that are
	// equal in all else. index finds them.
	units []Unit
	index map[string]int32
	// devices are those of the units; device has the place of each unit's in it.
	devices []*inventory.Device
	device  []int32
	// physical are the devices that the devices are parts of, numbered; roots are
	// those.
	physical  []int32
	physicals int
	roots     []inventory.Key
	// own numbers the devices, as physical does.
	own []int32
	// numa are the sets of NUMA nodes of the devices, -1 where they are unknown. The
	// nodes are numbered from 0; nodes are the kernel's numbers.
	numa     []int32
	numaSets [][]int
	nodes    []int
	// replicas says that a device has several units.
	replicas bool
	graph    *graph
	// goals are the usual sizes, and what a good set of each is.
	goals []goal
	// exactly one of these is set.
	tree    *tree
	subsets *subsets
	classes *classes
	// ceiling bounds what a search can find; nil where there is none.
	ceiling *tree

	once    sync.Once // of classes, where they are no more than a way out
	scratch sync.Pool
}

// Prepare makes a topology. Units with an ID that came before, and such without a
// device, are left out.
func Prepare(units []Unit, options Options) *Topology {
	s := &shape{options: options.withDefaults(), index: make(map[string]int32, len(units))}
	s.units = make([]Unit, 0, len(units))
	for _, u := range units {
		if _, twice := s.index[u.ID]; !twice && u.Device != nil {
			s.index[u.ID] = 0
			s.units = append(s.units, u)
		}
	}
	slices.SortFunc(s.units, func(a, b Unit) int { return cmp.Compare(a.ID, b.ID) })
	for i, u := range s.units {
		s.index[u.ID] = int32(i) //nolint:gosec // bounded by what kubelet takes of a resource
	}
	s.place()
	s.graph = newGraph(s.devices)
	clusters, ultrametric := s.graph.clusters()
	if ultrametric {
		s.goals = s.hierarchyGoals(clusters)
		s.tree = s.newTree(clusters)
	}
	switch {
	case s.tree != nil:
	case len(s.units) <= maxSubset:
		s.subsets = s.newSubsets()
	default:
		s.goals = nil
		s.classes = s.newClasses()
		s.ceiling = s.newCeiling(clusters)
	}
	return s.with(s.units)
}

// Refresh is the topology of these units: the shape of the one before if only
// their health differs, a new one otherwise. Options stay.
func (t *Topology) Refresh(units []Unit) *Topology {
	if len(units) != len(t.units) {
		return Prepare(units, t.options)
	}
	seen := make([]bool, len(t.units))
	for _, u := range units {
		i, ok := t.index[u.ID]
		if !ok || seen[i] || u.Device == nil || !sameShape(u.Device, t.units[i].Device) {
			return Prepare(units, t.options)
		}
		seen[i] = true
	}
	return t.with(units)
}

// Changed is the topology with another health of some units, which it has, and whose
// devices are the same but for that.
func (t *Topology) Changed(units []Unit) *Topology {
	changed := &Topology{shape: t.shape, healthy: slices.Clone(t.healthy)}
	for _, u := range units {
		if i, ok := t.index[u.ID]; ok {
			changed.healthy[i] = u.Healthy
		}
	}
	return changed
}

func sameShape(a, b *inventory.Device) bool {
	return a == b || a.Key == b.Key && a.Parent == b.Parent && slices.Equal(a.NUMANodes, b.NUMANodes) && slices.Equal(a.Links, b.Links)
}

// with has the health of units, all of which the shape has.
func (s *shape) with(units []Unit) *Topology {
	t := &Topology{shape: s, healthy: make([]bool, len(s.units))}
	for _, u := range units {
		t.healthy[s.index[u.ID]] = u.Healthy
	}
	return t
}

// place numbers devices, physical devices and sets of NUMA nodes, in the order of
// units.
func (s *shape) place() {
	devices := map[inventory.Key]int32{}
	s.device = make([]int32, len(s.units))
	for i, u := range s.units {
		d, ok := devices[u.Device.Key]
		if !ok {
			d = int32(len(s.devices)) //nolint:gosec // bounded by the units
			devices[u.Device.Key] = d
			s.devices = append(s.devices, u.Device)
		}
		s.replicas = s.replicas || ok
		s.device[i] = d
	}
	physical := map[inventory.Key]int32{}
	s.physical = make([]int32, len(s.devices))
	s.own = make([]int32, len(s.devices))
	s.numa = make([]int32, len(s.devices))
	for i, d := range s.devices {
		root := s.root(d, devices)
		p, ok := physical[root]
		if !ok {
			p = int32(len(physical)) //nolint:gosec // bounded by the units
			physical[root] = p
			s.roots = append(s.roots, root)
		}
		s.physical[i], s.own[i] = p, int32(i) //nolint:gosec // bounded by the units
		s.numa[i] = s.numaSet(d.NUMANodes)
	}
	s.physicals = len(physical)
}

// root is the physical device that d is a part of, as far up as is known.
func (s *shape) root(d *inventory.Device, devices map[inventory.Key]int32) inventory.Key {
	key := d.Key
	for range maxParents {
		if d.Parent == "" {
			break
		}
		key = inventory.Key{Backend: d.Backend, ID: d.Parent}
		up, ok := devices[key]
		if !ok {
			break
		}
		d = s.devices[up]
	}
	return key
}

// maxParents bounds the way up, which might be a circle.
const maxParents = 8

// numaSet is the number of a set of NUMA nodes.
func (s *shape) numaSet(nodes []int) int32 {
	if len(nodes) == 0 {
		return -1
	}
	numbers := make([]int, 0, len(nodes))
	for _, n := range nodes {
		i := slices.Index(s.nodes, n)
		if i < 0 {
			i = len(s.nodes)
			s.nodes = append(s.nodes, n)
		}
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	nodes = slices.Compact(numbers)
	i := slices.IndexFunc(s.numaSets, func(known []int) bool { return slices.Equal(known, nodes) })
	if i < 0 {
		i = len(s.numaSets)
		s.numaSets = append(s.numaSets, nodes)
	}
	return int32(i) //nolint:gosec // bounded by the units
}

// numaCost is how many NUMA nodes a set counts for; an unknown one counts as one of
// its own for each device.
func (s *shape) numaCost(set int32) int64 {
	if set < 0 {
		return 1
	}
	return int64(len(s.numaSets[set]))
}

// Len is how many units there are.
func (t *Topology) Len() int { return len(t.units) }

// Helps reports whether the choice of units can matter. It does not with the policy
// [None], and where all units are alike.
func (t *Topology) Helps() bool {
	if t.options.Policy == None || len(t.units) < 2 {
		return false
	}
	return t.tree == nil || len(t.tree.nodes) > 2
}
