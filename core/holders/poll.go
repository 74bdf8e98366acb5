package holders

import (
	"maps"
	"slices"
	"strings"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
)

// emptyFactor is how much longer kubelet must have been up before a list without
// any pod is believed: that is also what it gives while it has not heard of its
// pods yet.
const emptyFactor = 10

// listing is what kubelet answered, and when.
type listing struct {
	// began is before the call.
	began time.Time
	// kubeletUp is how long kubelet had been serving its socket at that time.
	kubeletUp time.Duration
	pods      []*podresourcesv1.PodResources
}

// settled reports whether the list may end allocations.
func (l listing) settled(settle time.Duration) bool {
	if len(l.pods) == 0 {
		settle *= emptyFactor
	}
	return l.kubeletUp >= settle
}

// units are the units that are listed, with their holders. Kubelet has an entry
// for each NUMA node of a device, so one may be named several times.
func (l listing) units() map[unit][]holder {
	units := map[unit][]holder{}
	for _, pod := range l.pods {
		for _, container := range pod.GetContainers() {
			h := holder{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: container.GetName()}
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					u := unit{resource: devices.GetResourceName(), id: id}
					if !slices.Contains(units[u], h) {
						units[u] = append(units[u], h)
					}
				}
			}
		}
	}
	return units
}

// apply takes in what kubelet listed.
func (b *Book) apply(l listing) {
	listed := l.units()
	found, unresolved := b.resolve(listed)
	settled := l.settled(b.opts.Timing.Settle)
	changed := false
	b.mu.Lock()
	answers := !maps.Equal(b.unresolved, unresolved) || (settled && !b.known)
	if !maps.Equal(b.unresolved, unresolved) {
		b.unresolved = unresolved
		signal(b.ended)
	}
	b.listed = listed
	for u, h := range found {
		// It may have been allocated while Resolve was asked.
		if b.holds[u] == nil {
			b.put(u, h)
			h.since, changed = l.began, true
		}
	}
	for u, h := range b.holds {
		holders, there := listed[u]
		switch {
		case there && !h.since.After(l.began):
			if !h.seen || !h.missing.IsZero() || !slices.Equal(h.holders, holders) {
				h.seen, h.holders, h.missing, changed = true, holders, time.Time{}, true
			}
		case !there && settled && b.ends(h, l):
			b.drop(u)
			changed = true
		case !there && settled && h.seen && h.missing.IsZero() && !h.since.After(l.began):
			h.missing, changed = l.began, true
			signal(b.soon)
		}
	}
	if settled {
		b.known = true
		clear(b.suspects)
		signal(b.ended)
	}
	b.mu.Unlock()
	if changed {
		signal(b.dirty)
	}
	if changed || answers {
		signal(b.changed)
	}
}

// ends reports whether a list without the hold ends it. A single list may have been made
// too early. Two lists that are Look apart end it at any age, if a list has named the hold
// before.
func (b *Book) ends(h *hold, l listing) bool {
	return l.began.Sub(h.since) >= b.grace(h) || !h.missing.IsZero() && l.began.Sub(h.missing) >= b.opts.Timing.Look
}

// grace is the least age at which a list may end the hold.
func (b *Book) grace(h *hold) time.Duration {
	if h.seen {
		return b.opts.Timing.Grace
	}
	return b.opts.Timing.Unseen
}

// resolve finds the devices of the listed units that the book does not know, and
// the IDs of those that nobody knows yet.
func (b *Book) resolve(listed map[unit][]holder) (found map[unit]*hold, unresolved map[string]bool) {
	var strange []unit
	b.mu.Lock()
	suspects := b.suspectsByID()
	for u := range listed {
		if b.holds[u] == nil {
			strange = append(strange, u)
		}
	}
	b.mu.Unlock()
	found, unresolved = map[unit]*hold{}, map[string]bool{}
	holders := map[Holder]string{} // a container's units of a resource have one holder
	for _, u := range strange {
		by := listed[u][0]
		of := Holder{Namespace: by.Namespace, Pod: by.Pod, Container: by.Container, Resource: u.resource}
		if holders[of] == "" {
			holders[of] = newHolder()
		}
		id, _, _ := strings.Cut(u.id, "::") // which no device ID contains
		if key, ok := b.opts.Resolve(u.resource, u.id); ok {
			found[u] = &hold{key: key, holderID: holders[of]}
		} else if key, ok := suspects[id]; ok {
			found[u] = &hold{key: key, holderID: holders[of]}
		} else if b.opts.Owns != nil && b.opts.Owns(u.resource) {
			unresolved[id] = true
		}
	}
	return found, unresolved
}

// suspectsByID are the suspects of a book whose notes are lost, but for IDs that
// several have. The resource that one of them was given out as may have another name
// by now, so that nothing else tells whose it is. The caller holds b.mu.
func (b *Book) suspectsByID() map[string]inventory.Key {
	if !b.lost {
		return nil
	}
	byID, several := map[string]inventory.Key{}, map[string]bool{}
	for key := range b.suspects {
		_, twice := byID[key.ID]
		several[key.ID] = several[key.ID] || twice
		byID[key.ID] = key
	}
	maps.DeleteFunc(byID, func(id string, _ inventory.Key) bool { return several[id] })
	return byID
}
