package agent

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// index says where in its view a device or a unit is. It never changes, and views of
// the same devices and units share it: it is as large as they are, and most rounds are
// about health.
type index struct {
	devices map[inventory.Key]devicePlace
	// parents are the devices that others are parts of.
	parents map[inventory.Key]bool
	// owners has the place of one of its units for each device that has some. A device
	// is in one resource.
	owners map[inventory.Key]unitPlace
	// units has for each resource of the table where in it an ID is.
	units []map[string]int32
	// replicas are those of shared devices.
	replicas map[inventory.Key]int
}

// devicePlace is where a device is in a snapshot.
type devicePlace struct{ backend, device int32 }

// unitPlace is where a unit is in a table.
type unitPlace struct{ resource, unit int32 }

// newIndex finds everything in a view.
func newIndex(v *view) *index {
	x := &index{
		devices: map[inventory.Key]devicePlace{}, parents: map[inventory.Key]bool{},
		owners: map[inventory.Key]unitPlace{}, units: make([]map[string]int32, len(v.table.Resources)),
		replicas: map[inventory.Key]int{},
	}
	for i, backend := range v.snapshot.Backends {
		for j, device := range backend.Devices {
			x.devices[device.Key] = devicePlace{int32(i), int32(j)} //nolint:gosec // bounded by the devices of a node
			if device.Parent != "" {
				x.parents[inventory.Key{Backend: device.Backend, ID: device.Parent}] = true
			}
		}
	}
	for i, r := range v.table.Resources {
		x.units[i] = make(map[string]int32, len(r.Units))
		var last *inventory.Device // a device's units stand together
		for j, u := range r.Units {
			x.units[i][u.ID] = int32(j) //nolint:gosec // bounded by the units of a node
			if u.Device == last {
				continue
			}
			last = u.Device
			x.owners[u.Device.Key] = unitPlace{int32(i), int32(j)} //nolint:gosec // bounded by the units of a node
			if r.Replicas > 1 {
				x.replicas[u.Device.Key] = r.Replicas
			}
		}
	}
	return x
}

// fits reports whether everything in a view is where it is in another one.
func (v *view) fits(other *view) bool {
	if other == nil || other.index == nil {
		return false
	}
	return slices.EqualFunc(v.snapshot.Backends, other.snapshot.Backends, func(a, b *inventory.Backend) bool {
		return a == b || a.Name == b.Name && slices.EqualFunc(a.Devices, b.Devices, func(a, b *inventory.Device) bool {
			return a == b || a.Key == b.Key && a.Parent == b.Parent
		})
	}) && slices.EqualFunc(v.table.Resources, other.table.Resources, func(a, b *resource.Resource) bool {
		return a == b || a.Name == b.Name && a.Replicas == b.Replicas && sameUnits(a.Units, b.Units)
	})
}

// sameUnits reports whether they are units of the same devices with the same IDs.
func sameUnits(a, b []resource.Unit) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a { // by index: a unit is large
		x, y := &a[i], &b[i]
		if x.ID != y.ID || x.Device != y.Device && x.Device.Key != y.Device.Key {
			return false
		}
	}
	return true
}
