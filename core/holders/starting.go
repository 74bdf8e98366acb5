package holders

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// Start is what one holder has of a container that is about to start.
type Start struct {
	Holder Ref
	// Unprepared: the holder got no CDI name for edits of its own, as none of its devices had
	// to be prepared when it was given them.
	Unprepared bool
	Devices    []StartedDevice
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
// A device is shared if a container with other units, of this resource or another, has a unit
// of it and has started. The container's own units have no other user: kubelet gives them to
// no other pod while its pod is there, so an earlier run of the container, or the init
// container before it, has ended. Of two containers that start at the same time, the second
// to call sees the first; otherwise each would wait for the other to end.
//
// A device also counts as shared if it is unknown whether another container still uses it:
//
//   - an init container had a unit of it that no other container got;
//   - the pod with a unit of it is gone, but is still listed or within the grace;
//   - a unit of it was allocated before this run;
//   - the units are replicas, and the book does not know all allocations of the device yet.
func (b *Book) Starting(resource string, units []Unit) (starts []Start, failed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := map[podresources.Unit]bool{}
	var begun []*allocation
	var unknown *holder // the holder of units that the book does not have
	for _, u := range units {
		name := podresources.Unit{Resource: resource, ID: u.ID}
		own[name] = true
		a := b.allocations[name]
		if a == nil {
			if unknown == nil {
				unknown = newHolder()
			}
			a = &allocation{holder: unknown, device: u.Device, reset: u.Reset, seen: podresources.Presence{Since: b.opts.Now()}}
			b.put(name, a)
			wake.Send(b.file.outdated)
		}
		if !a.started {
			a.started = true
			begun = append(begun, a)
		}
	}
	for _, u := range units {
		name := podresources.Unit{Resource: resource, ID: u.ID}
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
func (b *Book) usedByOthers(name podresources.Unit, device inventory.Key, own map[podresources.Unit]bool) bool {
	if isReplica(name.ID) && b.unconfirmed.has(device) {
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
		return append(starts, Start{Holder: h.Ref, Unprepared: h.unprepared, Devices: []StartedDevice{device}})
	}
	if !slices.ContainsFunc(starts[i].Devices, func(d StartedDevice) bool { return d.Device == device.Device }) {
		starts[i].Devices = append(starts[i].Devices, device)
	}
	return starts
}
