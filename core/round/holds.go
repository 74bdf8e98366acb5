package round

import (
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Kubelet counts units by resource and ID, and knows nothing of the devices behind them.
// The table therefore shows it two things:
//
//   - A device that is allocated as a unit of another name (the resource was renamed, its
//     replicas changed) is unhealthy until that container's pod is gone.
//   - A device that was removed while it is allocated stays listed, as unhealthy, so that
//     kubelet reports it in the pod's status. One with a network interface is healthy: the
//     interface is in the container, and so not on the host, where its backend reads it.

// Codes of the faults that follow from allocations.
const (
	codeHeldElsewhere = "held-elsewhere"
	codeGone          = "device-gone"
)

// IsHeldElsewhere reports whether a device is not available because a holder has it by another
// resource or another API.
func IsHeldElsewhere(v health.Verdict) bool {
	return slices.ContainsFunc(v.Faults, func(f health.Fault) bool { return f.Code == codeHeldElsewhere })
}

// excludes reports whether an allocation withholds its device from a resource. With the API
// config.APIDRA the scheduler knows which claims have a device of a driver. It does not know the
// containers that have it by the device plugin API, or claims that have it by a driver of another name.
func excludes(p *config.Profile, a holders.Allocation, r *resource.Resource) bool {
	if r.API != config.APIDRA {
		return a.Excludes(r.Name, r.Replicas > 1)
	}
	b := p.Backend(a.Device.Backend)
	return a.Claim == nil || b != nil && a.Claim.Driver != b.DRA.Driver
}

// HeldResources returns the names of resources with allocated units, but those with a unit of a
// backend that has not reported yet: a resource that is registered earlier would have an empty list,
// and kubelet would treat the containers' devices as removed.
func HeldResources(p *config.Profile, snapshot *inventory.Snapshot, held map[inventory.Key][]holders.Allocation) map[string]bool {
	names, early := map[string]bool{}, map[string]bool{}
	for key, all := range held {
		for _, a := range all {
			if a.Claim == nil {
				names[a.Resource] = true
				early[a.Resource] = early[a.Resource] || p.Backend(key.Backend) != nil && !lists(snapshot, key.Backend)
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return early[name] })
	return names
}

// lists reports whether a backend has reported.
func lists(snapshot *inventory.Snapshot, backend string) bool {
	return slices.ContainsFunc(snapshot.Backends, func(b *inventory.Backend) bool { return b.Name == backend })
}

// SeenDevice is a device as it was listed last.
type SeenDevice struct {
	// Resource is that of the device, or "".
	Resource string
	Device   *inventory.Device
}

// Removed returns the allocated devices that their backend no longer lists, as the previous
// round has them. Of those that it does not have, earlier has some by the earlier run of the agent, for
// backends that have reported. Devices of backends that are not in the profile are left out.
func Removed(p *config.Profile, snapshot *inventory.Snapshot, held map[inventory.Key][]holders.Allocation, before *Round, earlier map[inventory.Key]SeenDevice) map[inventory.Key]SeenDevice {
	removed := map[inventory.Key]SeenDevice{}
	for key := range held {
		d := before.lastSeen(key)
		if d.Device == nil && lists(snapshot, key.Backend) {
			d = earlier[key]
		}
		if d.Device != nil && p.Backend(key.Backend) != nil {
			removed[key] = d
		}
	}
	for _, backend := range snapshot.Backends {
		for _, device := range backend.Devices {
			delete(removed, device.Key)
		}
	}
	return removed
}

// WithAllocations returns the table with the faults that follow from allocations, and with the
// removed devices, which stay in their resource. Unchanged
// resources are the same pointers.
func WithAllocations(p *config.Profile, table *resource.Table, held map[inventory.Key][]holders.Allocation, removed map[inventory.Key]SeenDevice) *resource.Table {
	return withDevices(table, func(r *resource.Resource) []resource.Device {
		devices := addFaults(r.Devices, func(key inventory.Key) (health.Fault, bool) {
			i := slices.IndexFunc(held[key], func(a holders.Allocation) bool { return excludes(p, a, r) })
			if i < 0 {
				return health.Fault{}, false
			}
			a := held[key][i]
			return health.Fault{
				Code: codeHeldElsewhere, Recovery: inventory.RecoverySelf, Since: a.Since, Message: a.Message(),
			}, true
		})
		more := removedDevices(p, r, held, removed)
		if devices == nil && len(more) > 0 {
			devices = r.Devices
		}
		return slices.Concat(devices, more)
	})
}

// removedDevices returns the removed devices that are allocated as units of r, or that a claim has
// of r.
func removedDevices(p *config.Profile, r *resource.Resource, held map[inventory.Key][]holders.Allocation, removed map[inventory.Key]SeenDevice) []resource.Device {
	var devices []resource.Device
	for key, d := range removed {
		i := slices.IndexFunc(held[key], func(a holders.Allocation) bool {
			name := a.Resource
			if a.Claim != nil {
				name = d.Resource
			}
			return name == r.Name && !excludes(p, a, r)
		})
		if i >= 0 {
			verdict := health.Verdict{Healthy: true}
			if len(d.Device.Edits.NetDevices) == 0 {
				verdict = health.Verdict{Faults: []health.Fault{{
					Code: codeGone, Recovery: inventory.RecoverySelf, Since: held[key][i].Since,
					Message: "its backend no longer lists it, but " + who(held[key][i]) + " has it",
				}}}
			}
			devices = append(devices, resource.Device{Device: d.Device, Verdict: verdict})
		}
	}
	slices.SortFunc(devices, func(a, b resource.Device) int { return a.Compare(b.Key) })
	return devices
}

func who(a holders.Allocation) string {
	if a.Claim != nil {
		return "claim " + a.Claim.Namespace + "/" + a.Claim.Name
	}
	return "a container"
}
