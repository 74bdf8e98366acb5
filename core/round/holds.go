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

// Removed returns the allocated devices that their backend no longer lists, as the previous
// round has them, without a verdict. Of those that it does not have, earlier has some by the earlier run of the agent, for
// backends that have reported. Devices of backends that are not in the profile are left out.
func Removed(p *config.Profile, snapshot *inventory.Snapshot, held map[inventory.Key][]holders.Allocation, before *Round, earlier map[inventory.Key]resource.Device) map[inventory.Key]resource.Device {
	removed := map[inventory.Key]resource.Device{}
	for key := range held {
		d := before.lastSeen(key)
		if d.Device == nil && lists(snapshot, key.Backend) {
			d = earlier[key]
		}
		if d.Device != nil && p.Backend(key.Backend) != nil {
			d.Removed = true
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

// WithRemoved returns the table with the removed devices that are allocated as units of a resource, or that a claim has
// of one. They stay in that resource.
func WithRemoved(p *config.Profile, table *resource.Table, held map[inventory.Key][]holders.Allocation, removed map[inventory.Key]resource.Device) *resource.Table {
	if len(removed) == 0 {
		return table
	}
	result := *table
	result.Resources = slices.Clone(table.Resources)
	for i, r := range table.Resources {
		var devices []resource.Device
		for key, d := range removed {
			has := func(a holders.Allocation) bool {
				name := a.Resource
				if a.Claim != nil {
					name = d.Resource
				}
				return name == r.Name && !excludes(p, a, r)
			}
			if slices.ContainsFunc(held[key], has) {
				d.Resource = r.Name
				devices = append(devices, d)
			}
		}
		slices.SortFunc(devices, func(a, b resource.Device) int { return a.Compare(b.Key) })
		changed := *r
		changed.Devices = slices.Concat(r.Devices, devices)
		result.Resources[i] = &changed
	}
	return &result
}

// Allocated returns the reasons that follow from allocations, of devices of a table with the removed ones.
func Allocated(p *config.Profile, table *resource.Table, held map[inventory.Key][]holders.Allocation) Reasons {
	faults := Reasons{}
	for _, r := range table.Resources {
		for _, d := range r.Devices {
			i := slices.IndexFunc(held[d.Key], func(a holders.Allocation) bool { return excludes(p, a, r) != d.Removed })
			if i < 0 || d.Removed && len(d.Edits.NetDevices) > 0 {
				continue
			}
			a := held[d.Key][i]
			f := health.Fault{Code: codeHeldElsewhere, Recovery: inventory.RecoverySelf, Since: a.Since, Message: a.Message()}
			if d.Removed {
				f.Code, f.Message = codeGone, "its backend no longer lists it, but "+who(a)+" has it"
			}
			faults[d.Key] = f
		}
	}
	return faults
}

func who(a holders.Allocation) string {
	if a.Claim != nil {
		return "claim " + a.Claim.Namespace + "/" + a.Claim.Name
	}
	return "a container"
}
