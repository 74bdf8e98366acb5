package usage

import (
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Starting notes that a container with these units of the resource is about to
// start, and returns those of their devices that another container uses too, or may
// use, sorted. If the container does not start after all, failed takes the note
// back.
//
// Who else counts:
//
//   - Another unit of the device that a container was given, under this resource or
//     another. Not the container's own units: kubelet gives them to nobody else while
//     its pod is there, so whoever had them is over, be it an earlier run of the
//     container or an init container that handed them on.
//   - Not one whose container has yet to start for the first time: there is nothing
//     to disturb. Of two that start at the same time, the second to call sees the
//     first; otherwise each would wait for the other to go.
//   - In doubt, everybody: a unit that an init container had and handed on to nobody,
//     one whose pod is gone but still in kubelet's list or in the book's grace, one
//     from before our start, and, for replicas, a device of which the book does not
//     know everything yet.
func (b *Book) Starting(resource string, claims []Claim) (shared []inventory.Key, failed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, replicas := map[unit]bool{}, map[inventory.Key]bool{}
	var begun []*hold
	for _, claim := range claims {
		u := unit{resource: resource, id: claim.Unit}
		own[u] = true
		replicas[claim.Key] = strings.Contains(claim.Unit, "::")
		if h := b.holds[u]; h != nil && h.idle {
			h.idle = false
			begun = append(begun, h)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(replicas), inventory.Key.Compare) {
		other := replicas[key] && (b.suspects[key] || b.unresolved[key.ID])
		for u, h := range b.byKey[key] {
			other = other || !own[u] && !h.idle
		}
		if other {
			shared = append(shared, key)
		}
	}
	return shared, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, h := range begun {
			h.idle = true
		}
	}
}
