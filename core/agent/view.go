package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// view is what one round of the pipeline made of one snapshot: the same state of
// the world in every stage. It never changes.
type view struct {
	plan     *plan
	snapshot *inventory.Snapshot
	health   *health.View
	table    *resource.Table
	names    *cdi.Names

	// gone are devices that are listed no more, but held.
	gone map[inventory.Key]*inventory.Device

	devices map[inventory.Key]*inventory.Device
	// verdicts are those of devices that are units, with what follows from holds.
	verdicts map[inventory.Key]health.Verdict
	units    map[string]map[string]*resource.Unit
	// resources are the names of those that have the device, and parents the
	// devices that others are parts of.
	resources map[inventory.Key]string
	parents   map[inventory.Key]bool
	// replicas are those of shared devices.
	replicas map[inventory.Key]int
}

// index makes the look-ups of a view, once.
func (v *view) index() *view {
	v.devices, v.parents = map[inventory.Key]*inventory.Device{}, map[inventory.Key]bool{}
	for _, backend := range v.snapshot.Backends {
		for _, device := range backend.Devices {
			v.devices[device.Key] = device
			if device.Parent != "" {
				v.parents[inventory.Key{Backend: device.Backend, ID: device.Parent}] = true
			}
		}
	}
	v.verdicts, v.resources = map[inventory.Key]health.Verdict{}, map[inventory.Key]string{}
	v.replicas = map[inventory.Key]int{}
	v.units = make(map[string]map[string]*resource.Unit, len(v.table.Resources))
	for _, r := range v.table.Resources {
		units := make(map[string]*resource.Unit, len(r.Units))
		for i := range r.Units {
			units[r.Units[i].ID] = &r.Units[i]
			v.verdicts[r.Units[i].Device.Key] = r.Units[i].Verdict
			v.resources[r.Units[i].Device.Key] = r.Name
			if r.Replicas > 1 {
				v.replicas[r.Units[i].Device.Key] = r.Replicas
			}
		}
		v.units[r.Name] = units
	}
	return v
}

// backends are those of the snapshot; also of a nil view.
func (v *view) backends() []*inventory.Backend {
	if v == nil {
		return nil
	}
	return v.snapshot.Backends
}

// each calls show with every device of the snapshot, and those that are gone but
// held; also of a nil view.
func (v *view) each(show func(*inventory.Device, health.Verdict)) {
	if v == nil {
		return
	}
	for _, backend := range v.snapshot.Backends {
		for _, device := range backend.Devices {
			show(device, v.verdict(device.Key))
		}
	}
	byID := func(a, b inventory.Key) int { return strings.Compare(a.String(), b.String()) }
	for _, key := range slices.SortedFunc(maps.Keys(v.gone), byID) {
		show(v.gone[key], v.verdict(key))
	}
}

// verdict is what is thought of a device in this round.
func (v *view) verdict(key inventory.Key) health.Verdict {
	if verdict, ok := v.verdicts[key]; ok {
		return verdict
	}
	return v.health.Verdict(key)
}

// device returns a device of the snapshot, or nil; also of a nil view.
func (v *view) device(key inventory.Key) *inventory.Device {
	if v == nil {
		return nil
	}
	return v.devices[key]
}

// lastSeen is a device as this round or one before it saw it, or nil; also of a
// nil view.
func (v *view) lastSeen(key inventory.Key) *inventory.Device {
	if device := v.device(key); device != nil || v == nil {
		return device
	}
	return v.gone[key]
}

// resource returns a resource of the table, or nil; also of a nil view.
func (v *view) resource(name string) *resource.Resource {
	if v == nil {
		return nil
	}
	for _, r := range v.table.Resources {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// unit returns a unit of a resource, or nil; also of a nil view.
func (v *view) unit(name, id string) *resource.Unit {
	if v == nil {
		return nil
	}
	return v.units[name][id]
}

// forAmend is what is needed to judge edits that Prepare answered.
func (v *view) forAmend(name, backend string) (inventory.Policy, config.Injection, bool) {
	b, r := v.plan.backend(backend), v.resource(name)
	if b == nil || r == nil {
		return inventory.Policy{}, "", false
	}
	return pathPolicy(b), r.Injection, true
}
