package holders

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// Start is what one holder has of a container that is about to start.
type Start struct {
	// Holder is the holder's ID; see [Ended].
	Holder string
	// Unannounced: when the holder was given its devices, none of them had to be prepared.
	Unannounced bool
	Devices     []StartedDevice
}

// StartedDevice is a device of a container that is about to start.
type StartedDevice struct {
	Key inventory.Key
	// Shared: another container uses the device, too, or may use it.
	Shared bool
}

// Starting records that a container with these units of the resource is about to
// start, and returns its holder with its devices, each once, in the order of the units.
// An init container whose units went to several containers of its pod has several. If the
// container does not start after all, failed takes the record back.
//
// Another container uses a device if
//
//   - it was given another unit of the device, under this resource or another. Not the
//     container's own units: kubelet gives them to nobody else while its pod is there, so
//     whoever had them is over, be it an earlier run of the container or an init container
//     that handed them on.
//   - It has started before: otherwise there is nothing to disturb. Of two that start at
//     the same time, the second to call sees the first; otherwise each would wait for the
//     other to go.
//   - In doubt, it does: a unit that an init container had and handed on to nobody, one
//     whose pod is gone but still in kubelet's list or in the book's grace, one from before
//     our start, and, for replicas, a device of which the book does not know everything yet.
func (b *Book) Starting(resource string, units []Unit) (starts []Start, failed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := map[unit]bool{}
	var begun []*hold
	var unknown string // the holder of units that the book does not have
	for _, given := range units {
		u := unit{resource: resource, id: given.ID}
		own[u] = true
		h := b.holds[u]
		if h == nil {
			if unknown == "" {
				unknown = newHolder()
			}
			h = &hold{key: given.Device, holderID: unknown, since: b.opts.Now(), idle: true}
			b.put(u, h)
			signal(b.dirty)
		}
		if h.idle {
			h.idle = false
			begun = append(begun, h)
		}
	}
	for _, given := range units {
		u := unit{resource: resource, id: given.ID}
		starts = addStart(starts, b.holds[u], StartedDevice{given.Device, b.usedByOthers(u, given.Device, own)})
	}
	return starts, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, h := range begun {
			h.idle = true
		}
	}
}

// usedByOthers reports whether a container with other units than own uses the device, or
// may use it. The caller holds b.mu.
func (b *Book) usedByOthers(u unit, key inventory.Key, own map[unit]bool) bool {
	if isReplica(u.id) && (b.suspects[key] || b.unresolved[key.ID]) {
		return true
	}
	for other, h := range b.byKey[key] {
		if !own[other] && !h.idle {
			return true
		}
	}
	return false
}

// addStart adds a device to what the holder of h has, unless it is there.
func addStart(starts []Start, h *hold, device StartedDevice) []Start {
	i := slices.IndexFunc(starts, func(s Start) bool { return s.Holder == h.holderID })
	if i < 0 {
		return append(starts, Start{Holder: h.holderID, Unannounced: h.unannounced, Devices: []StartedDevice{device}})
	}
	if !slices.ContainsFunc(starts[i].Devices, func(d StartedDevice) bool { return d.Key == device.Key }) {
		starts[i].Devices = append(starts[i].Devices, device)
	}
	return starts
}
