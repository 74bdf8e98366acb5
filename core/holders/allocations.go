package holders

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
)

// Allocation is a unit of a device, or a device, that a holder has.
type Allocation struct {
	Device inventory.Key
	// Resource and Unit name a unit. For a claim, Resource is "".
	Resource, Unit string
	// Claim is the claim that has the device; nil for a unit.
	Claim *Claim
	// Amounts are what a share of the claim has of each capacity; nil for none.
	Amounts map[string]int64
	// Since is when it was allocated, or first listed.
	Since time.Time
	// Containers are those that kubelet lists with it, sorted; none before the first list.
	Containers []podresources.Container
	// Ending: kubelet no longer lists it. The device stays held until another list confirms
	// that.
	Ending bool
}

// Allocations returns everything that is allocated, by device; those of a device as
// AllocationsOf does.
func (b *Book) Allocations() map[inventory.Key][]Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[inventory.Key][]Allocation, len(b.byDevice))
	for device := range b.byDevice {
		all[device] = b.allocationsOf(device)
	}
	return all
}

// AllocationsOf returns the allocations of one device, the oldest first. A shared device
// has several.
func (b *Book) AllocationsOf(device inventory.Key) []Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allocationsOf(device)
}

// allocationsOf is AllocationsOf for a caller that holds b.mu.
func (b *Book) allocationsOf(device inventory.Key) []Allocation {
	var all []Allocation
	for name, a := range b.byDevice[device] {
		all = append(all, Allocation{
			Device: device, Resource: name.Resource, Unit: name.ID, Claim: a.holder.claim, Amounts: a.amounts, Since: a.seen.Since,
			Containers: slices.Clone(a.seen.Containers), Ending: a.seen.Ending(),
		})
	}
	slices.SortFunc(all, func(a, b Allocation) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Unit, b.Unit))
	})
	return all
}

// DeviceOf returns the device of a unit that is allocated.
func (b *Book) DeviceOf(resource, unit string) (inventory.Key, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.allocations[podresources.Unit{Resource: resource, ID: unit}]
	if a == nil {
		return inventory.Key{}, false
	}
	return a.device, true
}

// Unprepared reports whether each of the units is allocated to a holder none of whose devices
// had to be prepared. For a holder that is known by kubelet's list alone it returns false.
func (b *Book) Unprepared(resource string, units []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(units, func(id string) bool {
		a := b.allocations[podresources.Unit{Resource: resource, ID: id}]
		return a == nil || !a.holder.unprepared
	})
}

// Message describes the allocation to the user of a pod that cannot get the device.
func (a Allocation) Message() string {
	if a.Claim != nil {
		return fmt.Sprintf("claim %s/%s has it; it is free when the pods with that claim are gone", a.Claim.Namespace, a.Claim.Name)
	}
	return fmt.Sprintf("a container has it as unit %s of %s; it is free when that container's pod is gone", a.Unit, a.Resource)
}

// Owner is what all containers that have a device have in common. A field is "" if they differ in
// it, in an earlier one of Namespace, Pod and Container, or if it is not known.
type Owner struct {
	Namespace, Pod, Container string
	// Claim is the name of the claim that has the device; "" for a unit.
	Claim string
}

// OwnerOf returns the owner of a device; the zero value while kubelet has not listed the container
// of a unit. It is cheap enough to be called for every device.
func (b *Book) OwnerOf(device inventory.Key) Owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	var owner Owner
	first := true
	add := func(o Owner) {
		if !first {
			o = owner.common(o)
		}
		owner, first = o, false
	}
	for _, a := range b.byDevice[device] {
		claim := a.holder.claim
		switch {
		case claim == nil && len(a.seen.Containers) == 0:
			return Owner{}
		case claim == nil:
			claim = &Claim{}
		case len(a.seen.Containers) == 0:
			add(Owner{Namespace: claim.Namespace, Claim: claim.Name})
		}
		for _, c := range a.seen.Containers {
			add(Owner{c.Namespace, c.Pod, c.Name, claim.Name})
		}
	}
	return owner
}

// common returns what two owners have in common.
func (o Owner) common(other Owner) Owner {
	switch {
	case o.Namespace != other.Namespace:
		return Owner{}
	case o.Pod != other.Pod:
		o.Pod, o.Container = "", ""
	case o.Container != other.Container:
		o.Container = ""
	}
	if o.Claim != other.Claim {
		o.Claim = ""
	}
	return o
}
