package agent

import (
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// index finds devices and units of a view by their IDs. It never changes.
type index struct {
	// devices are those of the snapshot.
	devices map[inventory.Key]*inventory.Device
	// parents are the devices that others are parts of.
	parents map[inventory.Key]bool
	// owners has one of the units of each device that is in a resource. A device is in one
	// resource at most.
	owners map[inventory.Key]owner
	// units has the units of each resource by ID.
	units map[string]map[string]*resource.Unit
	// replicas are those of shared devices.
	replicas map[inventory.Key]int
}

// owner is a unit of a device, and the name of its resource.
type owner struct {
	resource string
	unit     *resource.Unit
}

func newIndex(v *view) *index {
	devices := 0
	for _, backend := range v.snapshot.Backends {
		devices += len(backend.Devices)
	}
	x := &index{
		devices: make(map[inventory.Key]*inventory.Device, devices), parents: map[inventory.Key]bool{},
		owners: make(map[inventory.Key]owner, devices), units: make(map[string]map[string]*resource.Unit, len(v.table.Resources)),
		replicas: map[inventory.Key]int{},
	}
	for _, backend := range v.snapshot.Backends {
		for _, device := range backend.Devices {
			x.devices[device.Key] = device
			if device.Parent != "" {
				x.parents[inventory.Key{Backend: device.Backend, ID: device.Parent}] = true
			}
		}
	}
	for _, r := range v.table.Resources {
		units := make(map[string]*resource.Unit, len(r.Units))
		x.units[r.Name] = units
		var last *inventory.Device // a device's units stand together
		for i := range r.Units {
			u := &r.Units[i]
			units[u.ID] = u
			if u.Device == last {
				continue
			}
			last = u.Device
			x.owners[u.Device.Key] = owner{r.Name, u}
			if r.Replicas > 1 {
				x.replicas[u.Device.Key] = r.Replicas
			}
		}
	}
	return x
}
