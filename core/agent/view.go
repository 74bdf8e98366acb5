package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
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
	// unusable are the faults of devices that no container can be started with.
	unusable map[inventory.Key]health.Fault

	// index finds devices and units; nil for a view without any.
	index *index
}

// indexed gives the view its index.
func (v *view) indexed() *view {
	v.index = newIndex(v)
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

// verdict is what is thought of a device in this round, with what follows from holds.
func (v *view) verdict(key inventory.Key) health.Verdict {
	if u := v.owner(key); u != nil {
		return u.Verdict
	}
	return v.ownVerdict(key)
}

// ownVerdict is verdict without the consequences of allocations.
func (v *view) ownVerdict(key inventory.Key) health.Verdict {
	return withFault(v.health.Verdict(key), v.unusable, key)
}

// device returns a device of the snapshot, or nil; also of a nil view.
func (v *view) device(key inventory.Key) *inventory.Device {
	if v == nil || v.index == nil {
		return nil
	}
	return v.index.devices[key]
}

// owner is one of the units of a device, or nil; also of a nil view.
func (v *view) owner(key inventory.Key) *resource.Unit {
	if v == nil || v.index == nil {
		return nil
	}
	return v.index.owners[key].unit
}

// resourceOf is the name of the resource that has the device, or "".
func (v *view) resourceOf(key inventory.Key) string {
	if v.index == nil {
		return ""
	}
	return v.index.owners[key].resource
}

// isParent reports whether other devices are parts of it; also of a nil view.
func (v *view) isParent(key inventory.Key) bool {
	return v != nil && v.index != nil && v.index.parents[key]
}

// replicas are those of shared devices. Nobody changes them.
func (v *view) replicas() map[inventory.Key]int {
	if v.index == nil {
		return nil
	}
	return v.index.replicas
}

// kin is in whose reset a device of the snapshot loses its state. The inventory has
// seen to it that nobody is a part of itself.
func (v *view) kin(device *inventory.Device) holders.Kin {
	kin := holders.Kin{ResetGroup: device.ResetGroup}
	for _, up := range v.lineage(device.Key)[1:] {
		kin.Parents = append(kin.Parents, up.ID)
	}
	return kin
}

// lineage returns a device of the snapshot and its ancestors, from itself up.
func (v *view) lineage(key inventory.Key) []inventory.Key {
	keys := []inventory.Key{key}
	for d := v.device(key); d != nil && d.Parent != ""; d = v.device(key) {
		key = inventory.Key{Backend: d.Backend, ID: d.Parent}
		keys = append(keys, key)
	}
	return keys
}

// isSelected reports whether a resource selects the device.
func (v *view) isSelected(key inventory.Key) bool { return v.owner(key) != nil }

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
	if v == nil || v.index == nil {
		return nil
	}
	return v.index.units[name][id]
}

// backend returns a backend of the snapshot, or nil; also of a nil view.
func (v *view) backend(name string) *inventory.Backend {
	for _, b := range v.backends() {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// needs are those that the backend declares; none if it is not in the inventory.
func (v *view) needs(backend string) inventory.Needs {
	if b := v.backend(backend); b != nil {
		return b.Description.Needs
	}
	return inventory.Needs{}
}

// forPrepared returns what is needed to check edits that Prepare returned.
func (v *view) forPrepared(name, backend string) (*config.Backend, config.Injection, bool) {
	b, r := v.plan.backend(backend), v.resource(name)
	if b == nil || r == nil {
		return nil, "", false
	}
	return b, r.Injection, true
}
