package holders

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
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
	// since is when it got its units, or was first listed.
	since time.Time
	// unprepared: none of its devices had to be prepared, so it got no CDI name for edits of
	// its own.
	unprepared bool
	// claim is that of a holder of kind claim.
	claim *Claim
}

// newHolder returns a holder of kind container with an ID that no holder has had: 26
// letters and digits.
func newHolder(since time.Time) *holder {
	return &holder{Ref: Ref{KindContainer, rand.Text()}, since: since}
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

// unitName names a unit: its ID is unique in its resource. Of a device of a claim, see claimed.
type unitName struct{ resource, id string }

// isReplica reports whether a unit is one of several of its device.
func isReplica(unit string) bool { return strings.Contains(unit, inventory.IDMark) }

// Container is a container that kubelet lists.
type Container struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Name      string `json:"container"`
}

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
	// listed: a list named it since holder.since. containers are those of the latest.
	listed     bool
	containers []Container
	// missing is when the first list without it began; zero if the latest list has it, or no
	// list ever had it.
	missing time.Time
}

// give gives the units to a new holder. The caller holds b.mu.
func (b *Book) give(resource string, units []Unit) {
	h := newHolder(b.opts.Now())
	h.unprepared = !slices.ContainsFunc(units, func(u Unit) bool { return u.Prepared })
	for _, u := range units {
		b.put(unitName{resource, u.ID}, &allocation{holder: h, device: u.Device, reset: u.Reset, started: !u.Prepared})
	}
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
	wake.Send(b.poller.soon)
}

// Return undoes a Take: the allocation was refused later, so no container has these units. A
// unit that kubelet has listed meanwhile, or whose device is another one now, stays allocated.
func (b *Book) Return(resource string, units []Unit) {
	b.mu.Lock()
	for _, u := range units {
		name := unitName{resource, u.ID}
		if a := b.allocations[name]; a != nil && a.device == u.Device && !a.listed {
			b.drop(name)
		}
	}
	b.mu.Unlock()
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
}

// put adds an allocation, which replaces the one that the unit had. The caller holds b.mu.
func (b *Book) put(name unitName, a *allocation) {
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
		b.byDevice[a.device] = map[unitName]*allocation{}
	}
	b.byDevice[a.device][name] = a
}

// drop ends the allocation of a unit. The caller holds b.mu.
func (b *Book) drop(name unitName) {
	a := b.allocations[name]
	b.remove(name)
	b.end(a)
}

// remove removes the allocation of a unit. The caller holds b.mu.
func (b *Book) remove(name unitName) {
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
		holders[a.holder] = &Holder{Ref: a.holder.Ref, Resource: name.resource}
	}
	for name, a := range b.allocations {
		if h := holders[a.holder]; h != nil {
			h.Units = append(h.Units, name.id)
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
