package diagram

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// Resource is a resource to describe.
type Resource struct {
	Name     string
	Policy   topology.Policy
	Topology *topology.Topology
	Units    []Used
}

// Used is a unit and its holder.
type Used struct {
	topology.Unit
	Held bool
	// Holder is the container or the claim; "" if it is not known.
	Holder string
	// Taken is that of [Device].
	Taken map[string]int64
}

// state returns the state of a unit: unhealthy also if it is held.
func (u Used) state() State {
	switch {
	case !u.Healthy:
		return Unhealthy
	case u.Held:
		return Held
	}
	return Free
}

// Describe returns the data of a resource. Devices and units are sorted by ID, with numbers
// in IDs compared as numbers.
func Describe(r Resource) Topology {
	t := Topology{
		Resource: r.Name, Policy: string(r.Policy), Matters: r.Topology.Helps(),
		Devices: []Device{}, Links: []Link{},
	}
	units := slices.Clone(r.Units)
	slices.SortFunc(units, func(a, b Used) int { return natural(a.ID, b.ID) })
	index := map[inventory.Key]int{}
	for _, u := range units {
		if u.Device == nil {
			continue
		}
		at, ok := index[u.Device.Key]
		if !ok {
			at = len(t.Devices)
			index[u.Device.Key] = at
			t.Devices = append(t.Devices, describeDevice(u.Device))
		}
		t.Devices[at].Taken = u.Taken
		t.Devices[at].Units = append(t.Devices[at].Units, Unit{ID: u.ID, State: u.state(), Holder: u.Holder})
	}
	eachLink(r.Topology.Devices(), func(l Link) { t.Links = append(t.Links, l) })
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

// direction is the connection from one device to another: a direct link, a path, or both.
type direction struct {
	to           int
	direct, path *inventory.Link
}

// weight returns the value of the direction.
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

// eachLink calls visit with the link of each pair of linked devices, in natural order. It
// sorts the devices.
func eachLink(devices []*inventory.Device, visit func(Link)) {
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return natural(a.ID, b.ID) })
	index := make(map[inventory.Key]int, len(devices))
	for i, d := range devices {
		index[d.Key] = i
	}
	ways := make([][]direction, len(devices))
	for i, d := range devices {
		ways[i] = directions(i, d, index)
	}
	for i := range ways {
		for _, there := range ways[i] {
			at, both := slices.BinarySearchFunc(ways[there.to], i, func(d direction, to int) int { return cmp.Compare(d.to, to) })
			if both && there.to < i {
				continue // the pair was visited before
			}
			if both && ways[there.to][at].weight() < there.weight() {
				there.direct, there.path = ways[there.to][at].direct, ways[there.to][at].path
			}
			l := there.describe(devices[i], devices[there.to])
			if !both {
				l.OneWay, l.Weight = true, 0
			}
			visit(l)
		}
	}
}

// directions returns the links of the device with the index self to other devices, sorted by
// their index. Of several direct links to one device the best counts, and of several paths.
func directions(self int, d *inventory.Device, index map[inventory.Key]int) []direction {
	byPeer := make(map[int]direction, len(d.Links))
	for i := range d.Links {
		l := &d.Links[i]
		to, ok := index[inventory.Key{Backend: d.Backend, ID: l.Peer}]
		if !ok || to == self {
			continue
		}
		way := byPeer[to]
		way.to = to
		best := &way.path
		if l.Direct() {
			best = &way.direct
		}
		if *best == nil || topology.Value(*l) > topology.Value(**best) {
			*best = l
		}
		byPeer[to] = way
	}
	return slices.SortedFunc(maps.Values(byPeer), func(a, b direction) int { return cmp.Compare(a.to, b.to) })
}

func describeGroup(g topology.Group) Group {
	out := Group{Weight: g.Weight, Units: slices.SortedFunc(slices.Values(g.Units), natural)}
	for _, name := range g.Names {
		// The weight already describes the links, and the position the whole.
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

// first returns the first unit of a group.
func (g Group) first() string {
	if len(g.Units) > 0 || len(g.Groups) == 0 {
		return strings.Join(g.Units[:min(1, len(g.Units))], "")
	}
	return g.Groups[0].first()
}

// natural compares IDs, with runs of digits compared as numbers.
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

// digits returns the number of digits at the begin of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
