package deviceplugin

import (
	"reflect"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// amend makes the view from the one before it, if only few units differ in health, or
// in what neither kubelet nor a choice depends on; what they have in common is shared.
// It reports whether that was so.
func (v *view) amend(before *view) bool {
	if before == nil || before.injection != v.injection || before.registration != v.registration || before.allocation != v.allocation ||
		before.replicas != v.replicas || before.maxReplicas != v.maxReplicas || !sameNames(before.names, v.names) ||
		len(before.all) != len(v.source) || len(before.source) != len(v.source) || len(before.list.units) != len(before.all) {
		return false
	}
	var changed []int
	for i := range v.source {
		was, now := &before.source[i], &v.source[i]
		if was.ID != now.ID {
			return false
		}
		if was.Device == now.Device { // most are, and need not be fetched to be compared
			if was.Verdict.Same(now.Verdict) {
				continue
			}
		} else if was.Device.Key != now.Device.Key || !alike(was.Device, now.Device) {
			return false
		}
		changed = append(changed, i)
	}
	a := *v // v stays as it is if it cannot be made so
	a.places, a.listed, a.notes, a.preStart = before.places, before.listed, before.notes, before.preStart
	a.all, a.healthy, a.unhealthy = slices.Clone(before.all), before.healthy, before.unhealthy
	namer := namer{needed: false}
	units, listed := make([]topology.Unit, 0, len(changed)), make(map[int32]*unit, len(changed))
	for _, i := range changed {
		old := a.all[i]
		u := newUnit(a.source[i], &namer)
		if u.cdi = old.cdi; u.cdi == "" && a.injection != config.InjectPlain {
			return false // why it has no name is found out from the start
		}
		a.all[i], listed[a.listed[i]] = u, u
		units = append(units, topology.Unit{ID: u.ID, Device: u.Device, Healthy: u.healthy})
		if u.healthy == old.healthy {
			continue
		}
		if u.healthy {
			a.healthy, a.unhealthy = a.healthy+1, a.unhealthy-1
		} else {
			a.healthy, a.unhealthy = a.healthy-1, a.unhealthy+1
		}
	}
	if a.list = before.list.with(listed); a.list.size > maxList {
		return false
	}
	a.topology = before.topology.Changed(units)
	*v = a
	return true
}

// sameNames reports whether two are one and the same.
func sameNames(a, b Names) bool {
	return a == nil && b == nil || a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// alike reports whether two states of a device differ in health at most, as far as
// kubelet, a container and a choice can see.
func alike(a, b *inventory.Device) bool {
	return a.Parent == b.Parent && a.Hooks == b.Hooks && slices.Equal(a.NUMANodes, b.NUMANodes) &&
		slices.Equal(a.Links, b.Links) && inventory.SameEdits(a.Edits, b.Edits)
}
