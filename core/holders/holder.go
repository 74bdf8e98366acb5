package holders

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// Kind is the kind of a holder. It decides how the holder's end is noticed.
type Kind string

// KindContainer is the kind of a holder that is one Allocate call of the device plugin API:
// the units of one resource that one container got. The list of kubelet's pods ends it.
const KindContainer Kind = "container"

// Ref names a holder. It is the same for every restart of the container and of the agent.
type Ref struct {
	Kind Kind
	// ID is never used again for another holder of the kind.
	ID string
}

// Holder is one Allocate call: the units of one resource that one container got.
type Holder struct {
	Ref
	Resource string
	// Units are sorted.
	Units []string
}

// holder is a Holder in the book. It has ended when no allocation refers to it.
type holder struct {
	Ref
	// unprepared: none of its devices had to be prepared, so it got no CDI name for edits of
	// its own.
	unprepared bool
	// claim is that of a holder of kind claim.
	claim *Claim
}

// newHolder returns a holder of kind container with an ID that no holder has had: 26
// letters and digits.
func newHolder() *holder {
	return &holder{Ref: Ref{KindContainer, rand.Text()}}
}

// Unit is what is allocated as one: a device, or one of its replicas.
type Unit struct {
	// ID is the device's, with ::N for a replica.
	ID     string
	Device inventory.Key
	// Prepared: the device is prepared before each start of the container, so that
	// [Book.Starting] is called for the unit.
	Prepared bool
	// Reset is the device's.
	Reset ResetScope
}

// isReplica reports whether a unit is one of several of its device.
func isReplica(unit string) bool { return strings.Contains(unit, inventory.IDMark) }

// allocation is a unit that a holder has.
type allocation struct {
	holder *holder
	device inventory.Key
	reset  ResetScope
	// shared: other claims may have the device as well. amounts are what this one has of each capacity.
	shared  bool
	amounts map[string]int64
	// started: a container was started with it, for all that is known.
	started bool
	// seen is what kubelet's lists show of it; its Since is when the holder got it, or when it was first listed.
	seen podresources.Presence
}

// give gives the units to a new holder. The caller holds b.mu.
func (b *Book) give(resource string, units []Unit) {
	h, now := newHolder(), b.opts.Now()
	h.unprepared = !slices.ContainsFunc(units, func(u Unit) bool { return u.Prepared })
	for _, u := range units {
		b.put(podresources.Unit{Resource: resource, ID: u.ID}, &allocation{holder: h, device: u.Device, reset: u.Reset, started: !u.Prepared, seen: podresources.Presence{Since: now}})
	}
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
	b.opts.Kubelet.Soon()
}

// Return undoes a Take: the allocation was refused later, so no container has these units. A
// unit that kubelet has listed meanwhile, or whose device is another one now, stays allocated.
func (b *Book) Return(resource string, units []Unit) {
	b.mu.Lock()
	for _, u := range units {
		name := podresources.Unit{Resource: resource, ID: u.ID}
		if a := b.allocations[name]; a != nil && a.device == u.Device && !a.seen.Listed {
			b.drop(name)
		}
	}
	b.mu.Unlock()
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
}

// put adds an allocation, which replaces the one that the unit had. The caller holds b.mu.
func (b *Book) put(name podresources.Unit, a *allocation) {
	if before := b.allocations[name]; before != nil {
		defer b.end(before)
		b.remove(name)
	}
	b.allocations[name] = a
	b.endDueReset(a.device)         // it is in use, so it is reset after that
	if a.holder.Kind != KindClaim { // the record of claims has it
		b.changes++
	}
	if b.byDevice[a.device] == nil {
		b.byDevice[a.device] = map[podresources.Unit]*allocation{}
	}
	b.byDevice[a.device][name] = a
}

// drop ends the allocation of a unit. The caller holds b.mu.
func (b *Book) drop(name podresources.Unit) {
	a := b.allocations[name]
	b.remove(name)
	b.end(a)
}

// remove removes the allocation of a unit. The caller holds b.mu.
func (b *Book) remove(name podresources.Unit) {
	device := b.allocations[name].device
	delete(b.allocations, name)
	delete(b.byDevice[device], name)
	if len(b.byDevice[device]) == 0 {
		delete(b.byDevice, device)
	}
}

// HoldersOf returns the holders that have the device, sorted by their units.
func (b *Book) HoldersOf(device inventory.Key) []Holder {
	b.mu.Lock()
	defer b.mu.Unlock()
	holders := map[*holder]*Holder{}
	for name, a := range b.byDevice[device] {
		holders[a.holder] = &Holder{Ref: a.holder.Ref, Resource: name.Resource}
	}
	for name, a := range b.allocations {
		if h := holders[a.holder]; h != nil {
			h.Units = append(h.Units, name.ID)
		}
	}
	all := make([]Holder, 0, len(holders))
	for _, h := range holders {
		slices.Sort(h.Units)
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int { return slices.Compare(a.Units, b.Units) })
	return all
}
