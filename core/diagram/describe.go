package diagram

import (
	"cmp"
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
	t.Links, t.LinksLeftOut = describeLinks(r.Topology.Devices())
	if all, ok := r.Topology.Groups(); ok {
		group := describeGroup(all)
		t.Tree = &group
	}
	return t
}

func describeDevice(d *inventory.Device) Device {
	out := Device{Backend: d.Backend, ID: d.ID, PCIBusID: d.PCIBusID, NUMANodes: d.NUMANodes, Parent: d.Parent}
	if model, ok := d.Attributes.Get("model"); ok {
		out.Model, _ = model.Value.(string)
	}
	return out
}

// maxLinks bounds the links of an answer: those of 724 devices that are all linked.
const maxLinks = 1 << 18

// describeLinks has the links among devices, by pair, and how many more there are. It
// sorts the devices.
func describeLinks(devices []*inventory.Device) (links []Link, more int) {
	links = []Link{}
	eachLink(devices, func(l Link) {
		if len(links) == maxLinks {
			more++
			return
		}
		links = append(links, l)
	})
	return links, more
}

// direction is how one device reaches another: by a direct link, a path, or both.
type direction struct {
	to           int
	direct, path *inventory.Link
}

// weight is the points of the direction.
func (d direction) weight() (sum int64) {
	for _, l := range []*inventory.Link{d.direct, d.path} {
		if l != nil {
			sum += topology.Value(*l)
		}
	}
	return sum
}

// describe returns the direction as a link between two devices.
func (d direction) describe(a, b *inventory.Device) Link {
	l, path := d.direct, ""
	switch {
	case l == nil:
		l = d.path
	case d.path != nil:
		path = d.path.Kind
	}
	return Link{A: a.ID, B: b.ID, Kind: l.Kind, Count: max(1, l.Count), Distance: l.Distance, Path: path, Weight: d.weight()}
}

// eachLink calls see with the link of each pair of devices that has one, in natural
// order. It sorts the devices.
func eachLink(devices []*inventory.Device, see func(Link)) {
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return natural(a.ID, b.ID) })
	places := make(map[inventory.Key]int, len(devices))
	for i, d := range devices {
		places[d.Key] = i
	}
	ways := make([][]direction, len(devices))
	for i, d := range devices {
		ways[i] = directions(i, d, places)
	}
	for i := range ways {
		for _, there := range ways[i] {
			at, both := slices.BinarySearchFunc(ways[there.to], i, func(d direction, to int) int { return cmp.Compare(d.to, to) })
			if both && there.to < i {
				continue // the pair was seen before
			}
			if both && ways[there.to][at].weight() < there.weight() {
				there.direct, there.path = ways[there.to][at].direct, ways[there.to][at].path
			}
			l := there.describe(devices[i], devices[there.to])
			if !both {
				l.OneWay, l.Weight = true, 0
			}
			see(l)
		}
	}
}

// directions are the links of the device at a place to others that have one, sorted by
// those. Of several direct links to one device the best counts, and of several paths.
func directions(place int, d *inventory.Device, places map[inventory.Key]int) []direction {
	out, index := make([]direction, 0, len(d.Links)), make(map[int]int, len(d.Links))
	for i := range d.Links {
		l := &d.Links[i]
		to, ok := places[inventory.Key{Backend: d.Backend, ID: l.Peer}]
		if !ok || to == place {
			continue
		}
		at, known := index[to]
		if !known {
			at, index[to] = len(out), len(out)
			out = append(out, direction{to: to})
		}
		best := &out[at].path
		if l.Direct() {
			best = &out[at].direct
		}
		if *best == nil || topology.Value(*l) > topology.Value(**best) {
			*best = l
		}
	}
	slices.SortFunc(out, func(a, b direction) int { return cmp.Compare(a.to, b.to) })
	return out
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
