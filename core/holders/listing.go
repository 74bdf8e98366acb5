package holders

import (
	"maps"
	"slices"
	"strings"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// emptyFactor is how much longer kubelet must have been up before a list without any pod
// may end allocations: right after its start kubelet lists no pods.
const emptyFactor = 10

// listing is a list of kubelet's pods, and when it was made.
type listing struct {
	// began is before the call.
	began time.Time
	// kubeletUp is how long kubelet had been serving its socket at that time.
	kubeletUp time.Duration
	pods      []*podresourcesv1.PodResources
}

// conclusive reports whether the list may end allocations.
func (l listing) conclusive(settle time.Duration) bool {
	if len(l.pods) == 0 {
		settle *= emptyFactor
	}
	return l.kubeletUp >= settle
}

// units returns the listed units with their containers. Kubelet has an entry for each NUMA
// node of a device, so one may be listed several times.
func (l listing) units() map[unitName][]Container {
	units := map[unitName][]Container{}
	for _, pod := range l.pods {
		for _, container := range pod.GetContainers() {
			c := Container{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Name: container.GetName()}
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					name := unitName{devices.GetResourceName(), id}
					if !slices.Contains(units[name], c) {
						units[name] = append(units[name], c)
					}
				}
			}
		}
	}
	return units
}

// apply changes the book by a list of kubelet's pods.
func (b *Book) apply(l listing, listed map[unitName][]Container) {
	found, unresolved := b.resolve(l, listed)
	conclusive := l.conclusive(b.opts.Timing.Settle)
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &b.unconfirmed
	different := !maps.Equal(u.unresolved, unresolved)
	if different || conclusive && !u.complete {
		wake.Send(b.changed)
	}
	u.unresolved = unresolved
	var suspects []inventory.Key
	if conclusive {
		suspects = slices.Collect(maps.Keys(u.suspects))
		u.complete = true
		clear(u.suspects)
	}
	if different || conclusive {
		wake.Send(b.ended.added)
	}
	changed := b.listClaims(l)
	for name, a := range found {
		// It may have been allocated while Resolve was called.
		if b.allocations[name] == nil {
			b.put(name, a)
			changed = true
		}
	}
	for name, a := range b.allocations {
		if a.holder.Kind == KindClaim {
			continue
		}
		containers, there := listed[name]
		switch {
		case there && !a.holder.since.After(l.began):
			if !a.listed || !a.missing.IsZero() || !slices.Equal(a.containers, containers) {
				a.listed, a.containers, a.missing, changed = true, containers, time.Time{}, true
			}
		case !there && conclusive && b.endedBy(l, a):
			b.drop(name)
			changed = true
		case !there && conclusive && a.listed && a.missing.IsZero() && !a.holder.since.After(l.began):
			a.missing, changed = l.began, true
			wake.Send(b.poller.soon)
		}
	}
	if u.lost { // who had them is not known, nor whether their reset was due
		for _, device := range suspects {
			b.requireReset(device)
		}
	}
	if changed {
		wake.Send(b.file.outdated)
		wake.Send(b.changed)
	}
}

// endedBy reports whether a list without the allocation ends it. A single list may have
// been made too early. Two lists that are Confirm apart end it at any age, if it was listed
// before.
func (b *Book) endedBy(l listing, a *allocation) bool {
	grace := b.opts.Timing.Unseen
	if a.listed {
		grace = b.opts.Timing.Grace
	}
	return l.began.Sub(a.holder.since) >= grace || !a.missing.IsZero() && l.began.Sub(a.missing) >= b.opts.Timing.Confirm
}

// resolve returns allocations of the listed units that the book does not have, and the IDs
// of those whose device is not known yet.
func (b *Book) resolve(l listing, listed map[unitName][]Container) (found map[unitName]*allocation, unresolved map[string]bool) {
	var unknown []unitName
	b.mu.Lock()
	suspects := b.unconfirmed.byID()
	for name := range listed {
		if b.allocations[name] == nil {
			unknown = append(unknown, name)
		}
	}
	b.mu.Unlock()
	found, unresolved = map[unitName]*allocation{}, map[string]bool{}
	type key struct {
		Container
		resource string
	}
	holders := map[key]*holder{} // a container's units of a resource have one holder
	for _, name := range unknown {
		id, _, _ := strings.Cut(name.id, inventory.IDMark)
		device, ok := b.opts.Resolve(name.resource, name.id)
		if !ok {
			device, ok = suspects[id]
		}
		switch {
		case ok:
			of := key{listed[name][0], name.resource}
			if holders[of] == nil {
				holders[of] = newHolder(l.began)
			}
			found[name] = &allocation{holder: holders[of], device: device, started: true}
		case b.opts.Owns != nil && b.opts.Owns(name.resource):
			unresolved[id] = true
		}
	}
	return found, unresolved
}
