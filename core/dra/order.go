package dra

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// orders has the order and the link groups of the devices of each backend and resource, which are
// expensive to find and depend on the devices alone. Only Run's goroutine uses it.
type orders map[string]*order

type order struct {
	devices []*inventory.Device
	places  map[string]int
	// groups are the link groups of a device by its ID.
	groups map[string]pool.LinkGroups
}

// of returns the order of devices, all of one backend and resource. Those that Prepare makes are not in it.
func (o orders) of(key string, devices []resource.Device) *order {
	devices = slices.DeleteFunc(slices.Clone(devices), func(d resource.Device) bool { return d.IsOnDemand() })
	known := o[key]
	if known == nil || !slices.EqualFunc(known.devices, devices, func(a *inventory.Device, b resource.Device) bool { return a == b.Device }) {
		known = &order{places: map[string]int{}}
		var units []topology.Unit
		for _, d := range devices {
			known.devices = append(known.devices, d.Device)
			units = append(units, topology.Unit{ID: d.ID, Device: d.Device, Healthy: true})
		}
		t := topology.Prepare(units, topology.Options{})
		for i, id := range t.Order() {
			known.places[id] = i
		}
		known.groups = pool.NewLinkGroups(t)
		o[key] = known
	}
	return known
}

// sort returns the devices sorted such that the first ones have the best links among each other. Those that
// Prepare makes come last, as the backend lists them: it knows which leave room for others, and links between
// devices that exclude each other mean nothing.
func (o *order) sort(devices []resource.Device) []resource.Device {
	place := func(d resource.Device) int {
		if i, ok := o.places[d.ID]; ok {
			return i
		}
		return len(o.places)
	}
	return slices.SortedStableFunc(slices.Values(devices), func(a, b resource.Device) int { return cmp.Compare(place(a), place(b)) })
}
