package diagram

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// Set describes devices of a topology.
func (t *Topology) Set(devices []string) Set {
	s := Set{Units: slices.SortedFunc(slices.Values(devices), natural), Links: []Pairs{}}
	unlinked := len(devices) * (len(devices) - 1) / 2
	for _, l := range t.Links {
		if l.OneWay || !slices.Contains(devices, l.A) || !slices.Contains(devices, l.B) {
			continue
		}
		unlinked--
		s.count(Pairs{Pairs: 1, Kind: l.Kind, Count: l.Count, Distance: l.Distance, Path: l.Path, Weight: l.Weight})
	}
	if unlinked > 0 {
		s.count(Pairs{Pairs: unlinked})
	}
	slices.SortFunc(s.Links, Pairs.compare)
	return s
}

// count adds pairs to those of the same kind.
func (s *Set) count(p Pairs) {
	for i, q := range s.Links {
		if q.Pairs = p.Pairs; q == p {
			s.Links[i].Pairs += p.Pairs
			return
		}
	}
	s.Links = append(s.Links, p)
}

// compare is below 0 if the links of p are better.
func (p Pairs) compare(q Pairs) int {
	return cmp.Or(cmp.Compare(q.Weight, p.Weight), cmp.Compare(p.Kind, q.Kind), cmp.Compare(p.Count, q.Count), cmp.Compare(p.Distance, q.Distance), cmp.Compare(p.Path, q.Path))
}

// Prepare returns the topology of the devices for choosing the best ones by their weakest link.
func (t *Topology) Prepare() *topology.Topology {
	devices := map[string]*inventory.Device{}
	units := make([]topology.Unit, 0, len(t.Devices))
	for _, d := range t.Devices {
		devices[d.ID] = &inventory.Device{Key: inventory.Key{Backend: d.Backend, ID: d.ID}, Parent: d.Parent, NUMANodes: d.NUMANodes}
		units = append(units, topology.Unit{ID: d.ID, Device: devices[d.ID], Healthy: true})
	}
	for _, l := range t.Links {
		if l.OneWay {
			continue
		}
		for _, way := range [][2]string{{l.A, l.B}, {l.B, l.A}} {
			d := devices[way[0]]
			d.Links = append(d.Links, inventory.Link{Peer: way[1], Kind: l.Kind, Count: l.Count, Distance: l.Distance})
			if l.Path != "" {
				d.Links = append(d.Links, inventory.Link{Peer: way[1], Kind: l.Path, Count: 1})
			}
		}
	}
	return topology.Prepare(units, topology.Options{WeakestFirst: true})
}
