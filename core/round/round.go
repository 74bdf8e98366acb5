package round

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Round is the result of one run of the pipeline. New makes it; it never changes. A nil *Round
// stands for the time before the first run: it has no backends and no devices. Verdict,
// OwnVerdict and Replicas must not be called on it.
type Round struct {
	// Profile is the profile in force; one without backends if none applies.
	Profile *config.Profile
	// Snapshot has the backends of the profile.
	Snapshot *inventory.Snapshot
	// Health has the verdicts of package health alone.
	Health *health.View
	// Table has the resources; the verdicts on their devices are complete.
	Table *resource.Table
	// ForKubelet has what the device plugin API serves of the table; nil for all of it.
	ForKubelet *resource.Table
	Names      *cdi.Names
	// Removed are devices that are allocated and that their backend no longer lists, as they
	// were last seen.
	Removed map[inventory.Key]resource.Device
	// Unusable are why devices are none that a container can be started with.
	Unusable Reasons

	// devices are those of the table, and those of the snapshot that no resource selects.
	devices map[inventory.Key]resource.Device
	parents map[inventory.Key]bool
	// assigned returns the devices of each resource by ID.
	assigned func() map[string]map[string]*resource.Device
	replicas map[inventory.Key]int
}

// New returns the round with these exported fields. Snapshot and Table are required; Idle
// needs Profile, and the verdicts need Health.
func New(r Round) *Round {
	count := len(r.Removed)
	for _, backend := range r.Snapshot.Backends {
		count += len(backend.Devices)
	}
	r.devices, r.parents, r.replicas = make(map[inventory.Key]resource.Device, count), map[inventory.Key]bool{}, map[inventory.Key]int{}
	for _, res := range r.Table.Resources {
		for _, d := range res.Devices {
			d.Resource = res.Name
			r.devices[d.Key] = d
			if res.Replicas > 1 {
				r.replicas[d.Key] = res.Replicas
			}
		}
	}
	for _, backend := range r.Snapshot.Backends {
		for _, device := range backend.Devices {
			if _, selected := r.devices[device.Key]; !selected {
				r.devices[device.Key] = resource.Device{Device: device}
			}
			if device.Parent != "" {
				r.parents[inventory.Key{Backend: device.Backend, ID: device.Parent}] = true
			}
		}
	}
	r.assigned = sync.OnceValue(func() map[string]map[string]*resource.Device { return assigned(r.Table) })
	return &r
}

func assigned(table *resource.Table) map[string]map[string]*resource.Device {
	all := make(map[string]map[string]*resource.Device, len(table.Resources))
	for _, res := range table.Resources {
		byID := make(map[string]*resource.Device, len(res.Devices))
		for i := range res.Devices {
			byID[res.Devices[i].ID] = &res.Devices[i]
		}
		all[res.Name] = byID
	}
	return all
}

// Idle reports whether no profile is in force.
func (r *Round) Idle() bool { return r == nil || len(r.Profile.Backends) == 0 }

// Backends returns those of the snapshot.
func (r *Round) Backends() []*inventory.Backend {
	if r == nil {
		return nil
	}
	return r.Snapshot.Backends
}

// Resources returns those of the table.
func (r *Round) Resources() []*resource.Resource {
	if r == nil {
		return nil
	}
	return r.Table.Resources
}

// ToKubelet returns the resources as the device plugin API serves them.
func (r *Round) ToKubelet() []*resource.Resource {
	if r != nil && r.ForKubelet != nil {
		return r.ForKubelet.Resources
	}
	return r.Resources()
}

// Each calls show with every device of the snapshot and then the removed ones, each with
// its complete verdict.
func (r *Round) Each(show func(*inventory.Device, health.Verdict)) {
	if r == nil {
		return
	}
	for _, backend := range r.Snapshot.Backends {
		for _, device := range backend.Devices {
			show(device, r.Verdict(device.Key))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.Removed), inventory.Key.Compare) {
		show(r.Removed[key].Device, r.Verdict(key))
	}
}

// Verdict returns the complete verdict on a device: that of the table, if the device is in a
// resource.
func (r *Round) Verdict(key inventory.Key) health.Verdict {
	if d := r.devices[key]; d.Resource != "" {
		return d.Verdict
	}
	return r.OwnVerdict(key)
}

// OwnVerdict returns the verdict without the faults that follow from allocations and resets.
func (r *Round) OwnVerdict(key inventory.Key) health.Verdict {
	return with(r.Health.Verdict(key), key, r.Unusable)
}

// Device returns a device of the snapshot, or nil.
func (r *Round) Device(key inventory.Key) *inventory.Device {
	if r == nil || r.devices[key].Removed {
		return nil
	}
	return r.devices[key].Device
}

// LastSeen returns a device of the snapshot or a removed one, or nil.
func (r *Round) LastSeen(key inventory.Key) *inventory.Device { return r.lastSeen(key).Device }

// lastSeen returns the same with the device's resource, without a verdict.
func (r *Round) lastSeen(key inventory.Key) resource.Device {
	if r == nil {
		return resource.Device{}
	}
	d := r.Removed[key]
	return resource.Device{Device: cmp.Or(r.Device(key), d.Device), Resource: cmp.Or(r.ResourceOf(key), d.Resource)}
}

// ResourceOf returns the name of the resource that has the device, or "".
func (r *Round) ResourceOf(key inventory.Key) string {
	if r == nil {
		return ""
	}
	return r.devices[key].Resource
}

// ResetsAfterUse reports whether a device is reset between holders. It is true for one that is not
// known yet, if it may be.
func (r *Round) ResetsAfterUse(key inventory.Key) bool {
	if r == nil {
		return true
	}
	at := r.devices[key]
	switch {
	case at.Resource != "":
		return r.Resource(at.Resource).Reset == config.ResetDevicesAfterUse
	case at.Device != nil || r.Profile.Backend(key.Backend) == nil:
		return false
	}
	return slices.ContainsFunc(r.Profile.Resources, func(other config.Resource) bool {
		return other.Reset == config.ResetDevicesAfterUse && cmp.Or(other.Backend, key.Backend) == key.Backend
	})
}

// IsSelected reports whether a resource selects the device.
func (r *Round) IsSelected(key inventory.Key) bool { return r.ResourceOf(key) != "" }

// IsParent reports whether other devices of the snapshot are parts of it.
func (r *Round) IsParent(key inventory.Key) bool { return r != nil && r.parents[key] }

// Replicas returns how many containers may share each shared device. The caller must not
// change it.
func (r *Round) Replicas() map[inventory.Key]int { return r.replicas }

// ResetScope returns the reset group and the parents by whose resets the device is affected. A
// nil device has none. The inventory has checked that no device is its own ancestor.
func (r *Round) ResetScope(device *inventory.Device) holders.ResetScope {
	if device == nil {
		return holders.ResetScope{}
	}
	scope := holders.ResetScope{Group: device.ResetGroup}
	for _, up := range r.Lineage(device.Key)[1:] {
		scope.Parents = append(scope.Parents, up.ID)
	}
	return scope
}

// Lineage returns a device of the snapshot and its ancestors, from itself up.
func (r *Round) Lineage(key inventory.Key) []inventory.Key {
	keys := []inventory.Key{key}
	for d := r.Device(key); d != nil && d.Parent != ""; d = r.Device(key) {
		key = inventory.Key{Backend: d.Backend, ID: d.Parent}
		keys = append(keys, key)
	}
	return keys
}

// Resource returns a resource of the table, or nil.
func (r *Round) Resource(name string) *resource.Resource {
	for _, res := range r.Resources() {
		if res.Name == name {
			return res
		}
	}
	return nil
}

// Assigned returns the device of a resource with that ID, or nil.
func (r *Round) Assigned(name, id string) *resource.Device {
	if r == nil {
		return nil
	}
	return r.assigned()[name][id]
}

// Backend returns a backend of the snapshot, or nil.
func (r *Round) Backend(name string) *inventory.Backend {
	for _, b := range r.Backends() {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Description returns what a backend reported of itself; the zero value if it is not in the
// snapshot.
func (r *Round) Description(backend string) inventory.Description {
	if b := r.Backend(backend); b != nil {
		return b.Description
	}
	return inventory.Description{}
}
