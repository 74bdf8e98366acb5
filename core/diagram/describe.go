package diagram

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// Resource is what is described.
type Resource struct {
	Name     string
	Policy   topology.Policy
	Topology *topology.Topology
	Units    []Used
}

// Used is a unit, and who uses it.
type Used struct {
	topology.Unit
	Held bool
	// Holder is the container, "" if it is not known.
	Holder string
}

// state is how a unit is; what is broken is so whoever holds it.
func (u Used) state() State {
	switch {
	case !u.Healthy:
		return Unhealthy
	case u.Held:
		return Held
	}
	return Free
}

// Describe makes the data of a resource. Devices and units are in the order of their
// IDs, numbers in them as numbers.
func Describe(r Resource) Topology {
	t := Topology{
		Resource: r.Name, Policy: string(r.Policy), Matters: r.Topology.Helps(),
		Devices: []Device{}, Links: []Link{},
	}
	units := slices.Clone(r.Units)
	slices.SortFunc(units, func(a, b Used) int { return natural(a.ID, b.ID) })
	places := map[inventory.Key]int{}
	for _, u := range units {
		if u.Device == nil {
			continue
		}
		place, ok := places[u.Device.Key]
		if !ok {
			place = len(t.Devices)
			places[u.Device.Key] = place
			t.Devices = append(t.Devices, describeDevice(u.Device))
		}
		t.Devices[place].Units = append(t.Devices[place].Units, Unit{ID: u.ID, State: u.state(), Holder: u.Holder})
	}
	t.Links = describeLinks(r.Topology.Devices())
	if all, ok := r.Topology.Groups(); ok {
		group := describeGroup(all)
		t.Tree = &group
	}
	return t
}

func describeDevice(d *inventory.Device) Device {
	out := Device{Backend: d.Backend, ID: d.ID, PCIBusID: d.PCIBusID, NUMANodes: d.NUMANodes, Parent: d.Parent}
	if model, ok := d.Attributes["model"]; ok && model.String != nil {
		out.Model = *model.String
	}
	return out
}

// describeLinks has the links among devices, by pair. It sorts the devices.
func describeLinks(devices []*inventory.Device) []Link {
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return natural(a.ID, b.ID) })
	known := make(map[inventory.Key]int, len(devices))
	for i, d := range devices {
		known[d.Key] = i
	}
	best := make([]map[int]inventory.Link, len(devices)) // by device and peer
	for i, d := range devices {
		best[i] = make(map[int]inventory.Link, len(d.Links))
		for _, l := range d.Links {
			to, ok := known[inventory.Key{Backend: d.Backend, ID: l.Peer}]
			if other, twice := best[i][to]; ok && to != i && (!twice || topology.Weight(l) > topology.Weight(other)) {
				best[i][to] = l
			}
		}
	}
	links := []Link{}
	for i := range best {
		for _, to := range slices.Sorted(maps.Keys(best[i])) {
			l := best[i][to]
			back, both := best[to][i]
			switch {
			case both && to < i:
				continue // the pair is told of once
			case both && topology.Weight(back) < topology.Weight(l):
				l = back
			}
			link := Link{A: devices[i].ID, B: devices[to].ID, Kind: l.Kind, Count: max(1, l.Count), Distance: l.Distance, OneWay: !both}
			if both {
				link.Weight = topology.Weight(l)
			}
			links = append(links, link)
		}
	}
	return links
}

func describeGroup(g topology.Group) Group {
	out := Group{Weight: g.Weight, Units: slices.SortedFunc(slices.Values(g.Units), natural)}
	for _, name := range g.Names {
		// The links are told by the weight, and that it is all by where it is.
		if name != "all" && !strings.HasPrefix(name, "links of ") {
			out.Names = append(out.Names, name)
		}
	}
	for _, child := range g.Groups {
		out.Groups = append(out.Groups, describeGroup(child))
	}
	slices.SortStableFunc(out.Groups, func(x, y Group) int { return natural(x.first(), y.first()) })
	return out
}

// first is the first unit of a group.
func (g Group) first() string {
	if len(g.Units) > 0 || len(g.Groups) == 0 {
		return strings.Join(g.Units[:min(1, len(g.Units))], "")
	}
	return g.Groups[0].first()
}

// natural orders IDs, runs of digits in them as the numbers that they are.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n > 0 && m > 0 {
			p, q := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
