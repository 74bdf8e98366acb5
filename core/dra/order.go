package dra

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// orders has the order of the devices of each backend and resource, which is expensive to find and
// depends on the devices alone. Only Run's goroutine uses it.
type orders map[string]*order

type order struct {
	devices []*inventory.Device
	places  map[string]int
}

// sort returns the devices sorted such that the first ones have the best links among each other.
func (o orders) sort(key string, devices []resource.Device) []resource.Device {
	known := o[key]
	if known == nil || !slices.EqualFunc(known.devices, devices, func(a *inventory.Device, b resource.Device) bool { return a == b.Device }) {
		known = &order{places: map[string]int{}}
		var units []topology.Unit
		for _, d := range devices {
			known.devices = append(known.devices, d.Device)
			units = append(units, topology.Unit{ID: d.ID, Device: d.Device, Healthy: true})
		}
		for i, id := range topology.Prepare(units, topology.Options{}).Order() {
			known.places[id] = i
		}
		o[key] = known
	}
	sorted := slices.Clone(devices)
	slices.SortFunc(sorted, func(a, b resource.Device) int { return cmp.Compare(known.places[a.ID], known.places[b.ID]) })
	return sorted
}
