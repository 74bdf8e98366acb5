package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Kubelet counts units by resource and ID, and knows nothing of the devices
// behind them. Two things it cannot see are put into the table here:
//
//   - A device that a container got under another name (the resource was renamed,
//     its replicas changed) is not given out again before that one is gone.
//   - A device that vanished while a container holds it stays listed, as
//     unhealthy, so that the pod's status can tell.

// Codes of the faults that follow from what is held.
const (
	codeHeldElsewhere = "held-elsewhere"
	codeGone          = "device-gone"
)

// conflicts reports whether a container's hold keeps the device from being given
// out as a unit of r. Kubelet itself takes care of holds that have the form of
// r's units; of others, only replicas among replicas may share a device.
func conflicts(r *resource.Resource, hold holders.Hold) bool {
	_, _, replica := resource.SplitUnitID(hold.Unit)
	shared := r.Replicas > 1
	if hold.Resource == r.Name && replica == shared {
		return false
	}
	return !replica || !shared
}

// heldElsewhere is what keeps the device from being given out as a unit of r; ok
// is false if nothing does.
func heldElsewhere(r *resource.Resource, holds []holders.Hold) (fault health.Fault, ok bool) {
	for _, hold := range holds {
		if conflicts(r, hold) {
			return health.Fault{
				Code: codeHeldElsewhere, Recovery: inventory.RecoverySelf, Since: hold.Since, Message: holderElsewhere(hold),
			}, true
		}
	}
	return health.Fault{}, false
}

func holderElsewhere(hold holders.Hold) string {
	return fmt.Sprintf("a container has it as unit %s of %s; it is free when that container's pod is gone", hold.Unit, hold.Resource)
}

// heldNames are the resources that containers hold units of. Before every backend
// has reported there are none: who is registered without units that are only late
// would take them away.
func heldNames(p *plan, snapshot *inventory.Snapshot, held map[inventory.Key][]holders.Hold) map[string]bool {
	if len(snapshot.Backends) < len(p.profile.Backends) {
		return nil
	}
	names := map[string]bool{}
	for _, holds := range held {
		for _, hold := range holds {
			names[hold.Resource] = true
		}
	}
	return names
}

// gone are the devices that containers hold and that their backend, though it is
// configured, lists no more, as the rounds before last saw them.
func gone(p *plan, snapshot *inventory.Snapshot, held map[inventory.Key][]holders.Hold, before *view) map[inventory.Key]*inventory.Device {
	gone := map[inventory.Key]*inventory.Device{}
	for key := range held {
		if p.backend(key.Backend) == nil {
			continue
		}
		if device := before.lastSeen(key); device != nil {
			gone[key] = device
		}
	}
	for _, backend := range snapshot.Backends {
		for _, device := range backend.Devices {
			delete(gone, device.Key)
		}
	}
	return gone
}

// withHolds is the table with what follows from the holds. Resources without any
// such unit are taken over as they are.
func withHolds(table *resource.Table, held map[inventory.Key][]holders.Hold, gone map[inventory.Key]*inventory.Device) *resource.Table {
	if len(held) == 0 {
		return table
	}
	result := *table
	result.Resources = slices.Clone(table.Resources)
	for i, r := range table.Resources {
		var faults []health.Fault
		var places []int
		for place := range r.Units {
			if fault, ok := heldElsewhere(r, held[r.Units[place].Device.Key]); ok {
				faults, places = append(faults, fault), append(places, place)
			}
		}
		more := goneUnits(r, held, gone)
		if len(places) == 0 && len(more) == 0 {
			continue
		}
		changed := *r
		changed.Units = append(slices.Clone(r.Units), more...)
		for j, place := range places {
			u := &changed.Units[place]
			u.Verdict = health.Verdict{Faults: append(slices.Clone(u.Verdict.Faults), faults[j])}
		}
		result.Resources[i] = &changed
	}
	return &result
}

// goneUnits are the units of r that containers hold of devices which vanished.
func goneUnits(r *resource.Resource, held map[inventory.Key][]holders.Hold, gone map[inventory.Key]*inventory.Device) []resource.Unit {
	var units []resource.Unit
	for key, device := range gone {
		for _, hold := range held[key] {
			if hold.Resource == r.Name && !conflicts(r, hold) {
				units = append(units, resource.Unit{ID: hold.Unit, Device: device, Verdict: goneVerdict(hold)})
			}
		}
	}
	slices.SortFunc(units, func(a, b resource.Unit) int { return strings.Compare(a.ID, b.ID) })
	return units
}

func goneVerdict(hold holders.Hold) health.Verdict {
	return health.Verdict{Faults: []health.Fault{{
		Code: codeGone, Recovery: inventory.RecoverySelf, Since: hold.Since,
		Message: "its backend lists it no more, but a container holds it",
	}}}
}
