package holders

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// Start is what one holder has of a container that is about to start.
type Start struct {
	Holder Ref
	// Unnamed: the holder got no CDI name for edits of its own, as none of its devices had
	// to be prepared when it was given them.
	Unnamed bool
	Devices []StartedDevice
}

// StartedDevice is a device of a container that is about to start.
type StartedDevice struct {
	Device inventory.Key
	// Shared: another container uses the device, too, or may use it.
	Shared bool
}

// Starting records that a container with these units of the resource is about to start,
// and returns its holder with its devices, each once, in the order of the units. An init
// container whose units went to several containers of its pod has several holders. If the
// container does not start after all, failed takes the record back.
//
// Another container uses a device if
//
//   - it has another unit of the device, under this resource or another. The container's own
//     units have no other user: kubelet gives them to no other pod while its pod is there,
//     so that an earlier run of the container, or the init container before it, has ended.
//   - It has started before: otherwise there is nothing to disturb. Of two that start at the
//     same time, the second to call sees the first; otherwise each would wait for the other
//     to end.
//   - If it is not known, it does: a unit that an init container had and that no other
//     container got, one whose pod is gone but still listed or within the grace, one from
//     before this run, and, for replicas, a device of which the book does not know all
//     allocations yet.
func (b *Book) Starting(resource string, units []Unit) (starts []Start, failed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := map[unitName]bool{}
	var begun []*allocation
	var unknown *holder // the holder of units that the book does not have
	for _, u := range units {
		name := unitName{resource, u.ID}
		own[name] = true
		a := b.allocations[name]
		if a == nil {
			if unknown == nil {
				unknown = newHolder(b.opts.Now())
			}
			a = &allocation{holder: unknown, device: u.Device, reset: u.Reset}
			b.put(name, a)
			signal(b.file.outdated)
		}
		if !a.started {
			a.started = true
			begun = append(begun, a)
		}
	}
	for _, u := range units {
		name := unitName{resource, u.ID}
		starts = addStart(starts, b.allocations[name].holder, StartedDevice{u.Device, b.usedByOthers(name, u.Device, own)})
	}
	return starts, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, a := range begun {
			a.started = false
		}
	}
}

// usedByOthers reports whether a container with other units than own uses the device, or
// may use it. The caller holds b.mu.
func (b *Book) usedByOthers(name unitName, device inventory.Key, own map[unitName]bool) bool {
	if isReplica(name.id) && b.unconfirmed.has(device) {
		return true
	}
	for other, a := range b.byDevice[device] {
		if !own[other] && a.started {
			return true
		}
	}
	return false
}

// addStart adds a device to what the holder has, unless it is there.
func addStart(starts []Start, h *holder, device StartedDevice) []Start {
	i := slices.IndexFunc(starts, func(s Start) bool { return s.Holder == h.Ref })
	if i < 0 {
		return append(starts, Start{Holder: h.Ref, Unnamed: h.unnamed, Devices: []StartedDevice{device}})
	}
	if !slices.ContainsFunc(starts[i].Devices, func(d StartedDevice) bool { return d.Device == device.Device }) {
		starts[i].Devices = append(starts[i].Devices, device)
	}
	return starts
}
