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
	options  Options
	criteria []criterion
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
	// numa are the NUMA nodes of the devices, a bit each; 0 if they are unknown. place
	// numbers the sets of nodes that devices have; -1 if they are unknown.
	numa   []uint64
	place  []int32
	places int
	// replicas reports whether any device has several units.
	replicas bool
	graph    graph
	// alike reports that it makes no difference which units are chosen.
	alike bool
	table *table // nil for more than maxTable units
	tree  tree   // nil with a table, and if the devices are no hierarchy
	// unitsOf has the units of each device.
	unitsOf [][]int32

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
	s.number()
	s.criteria = s.options.criteria(s.replicas)
	s.graph = newGraph(s.devices)
	s.alike = s.isAlike()
	switch {
	case s.options.Policy == None:
	case len(s.units) <= maxTable:
		s.table = s.newTable()
	default:
		s.tree = s.newTree()
	}
	return s.with(s.units)
}

// Refresh returns the topology of units with the options of t. It shares what [Prepare]
// computed (10 ms for 16 devices) if the units, sorted by ID, differ from those of t in health
// at most.
func (t *Topology) Refresh(units []Unit) *Topology {
	same := slices.EqualFunc(units, t.units, func(a, b Unit) bool {
		return a.ID == b.ID && a.Device != nil && sameShape(a.Device, b.Device)
	})
	if !same {
		return Prepare(units, t.options)
	}
	return t.with(units)
}

func sameShape(a, b *inventory.Device) bool {
	return a == b || a.Key == b.Key && a.Parent == b.Parent && slices.Equal(a.NUMANodes, b.NUMANodes) && slices.Equal(a.Links, b.Links)
}

// with has the health of units, which are those of the shape in its order.
func (s *shape) with(units []Unit) *Topology {
	t := &Topology{shape: s, healthy: make([]bool, len(units))}
	for i, u := range units {
		t.healthy[i] = u.Healthy
	}
	return t
}

// number numbers devices, physical devices and NUMA nodes, in the order of units.
func (s *shape) number() {
	devices := map[inventory.Key]int32{}
	s.device = make([]int32, len(s.units))
	for i, u := range s.units {
		d, ok := devices[u.Device.Key]
		if !ok {
			d = int32(len(s.devices)) //nolint:gosec // bounded by the units
			devices[u.Device.Key] = d
			s.devices = append(s.devices, u.Device)
			s.unitsOf = append(s.unitsOf, nil)
		}
		s.unitsOf[d] = append(s.unitsOf[d], int32(i)) //nolint:gosec // bounded by the units
		s.replicas = s.replicas || ok
		s.device[i] = d
	}
	physical := map[inventory.Key]int32{}
	s.physical = make([]int32, len(s.devices))
	s.numa = make([]uint64, len(s.devices))
	s.place = make([]int32, len(s.devices))
	nodes, places := map[int]int{}, map[uint64]int32{0: -1}
	for i, d := range s.devices {
		root := s.root(d, devices)
		p, ok := physical[root]
		if !ok {
			p = int32(len(physical)) //nolint:gosec // bounded by the units
			physical[root] = p
			s.roots = append(s.roots, root)
		}
		s.physical[i] = p
		for _, n := range d.NUMANodes {
			if _, ok := nodes[n]; !ok {
				nodes[n] = len(nodes)
			}
			s.numa[i] |= 1 << min(nodes[n], maxNode)
		}
		if _, ok := places[s.numa[i]]; !ok {
			places[s.numa[i]] = int32(len(places) - 1) //nolint:gosec // bounded by the units
		}
		s.place[i] = places[s.numa[i]]
	}
	s.physicals, s.places = len(physical), len(places)-1
}

// maxNode is the last NUMA node that is distinguished; all after it count as one. No
// machine has as many.
const maxNode = 63

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

// maxParents bounds the number of ancestors, which might be a cycle.
const maxParents = 8

// Len is how many units there are.
func (t *Topology) Len() int { return len(t.units) }

// Helps reports whether the choice of units can matter. It does not with the policy
// [None], with two units, and where all units are alike.
func (t *Topology) Helps() bool {
	return t.options.Policy != None && len(t.units) > 2 && !t.alike
}

// isAlike reports whether all units are on the same NUMA nodes, and their links and
// physical devices make no difference.
func (s *shape) isAlike() bool {
	n := len(s.devices)
	if n <= 1 || s.replicas {
		return n <= 1
	}
	value := s.graph.value(0, 1)
	for i, near := range s.graph {
		if s.place[i] != s.place[0] || len(near) > 0 != (value > 0) || value > 0 && len(near) != n-1 ||
			slices.ContainsFunc(near, func(n neighbor) bool { return n.value != value }) {
			return false
		}
	}
	return s.physicals == 1 || s.physicals == n
}
