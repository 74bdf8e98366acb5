package holders

import (
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// A device with Options.ResetAfterUse belongs to no new holder from the end of its last one until it
// was reset. The end and the due reset are one step under Book.mu, and one write of the file:
//
//	held ──the last holder ends──► due ──EndDueResets──► free
//
// Kubelet may give a unit to another pod before a list has shown the end of the first. So a Take of a
// unit that still has a holder ends that holder. If that is an init container of the same pod, the
// reset is superfluous; no container of the pod has started then.

// awaitingReset is the operation of a device whose reset is due.
const awaitingReset = "wait for the reset after its last use"

// DueReset is a device that is to be reset before it has another holder.
type DueReset struct {
	// Since is when its last holder ended.
	Since time.Time
	// Releasing: a backend has yet to release it, which comes first.
	Releasing bool
}

// requireReset records that the device must be reset, if it has no holder left. The caller holds b.mu.
func (b *Book) requireReset(device inventory.Key) {
	if len(b.byDevice[device]) > 0 || b.due[device] != nil || b.opts.ResetAfterUse == nil || !b.opts.ResetAfterUse(device) {
		return
	}
	b.due[device] = &operation{what: awaitingReset, exclusive: true, since: b.opts.Now(), ended: make(chan struct{})}
	b.changes++
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
}

// endDueReset forgets that a reset is due, and reports whether one was. The caller holds b.mu.
func (b *Book) endDueReset(device inventory.Key) bool {
	op := b.due[device]
	if op == nil {
		return false
	}
	delete(b.due, device)
	close(op.ended)
	b.changes++
	return true
}

// DueResets returns the devices that are to be reset before they have another holder; nil if there are
// none.
func (b *Book) DueResets() map[inventory.Key]DueReset {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) == 0 {
		return nil
	}
	all := make(map[inventory.Key]DueReset, len(b.due))
	for device, op := range b.due {
		all[device] = DueReset{Since: op.since}
	}
	for e := range b.ended.sent {
		if due, ok := all[e.Device]; ok {
			due.Releasing = true
			all[e.Device] = due
		}
	}
	return all
}

// EndDueResets records that the devices were reset, or need not be any more. It reports whether a
// reset of one of them was due.
func (b *Book) EndDueResets(devices ...inventory.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := false
	for _, device := range devices {
		ended = b.endDueReset(device) || ended
	}
	if ended {
		wake.Send(b.file.outdated)
		wake.Send(b.changed)
	}
	return ended
}

// endEarlier ends the earlier holders of units whose devices are reset after use, and reports whether
// there was one. The caller holds b.mu.
func (b *Book) endEarlier(resource string, units []Unit) bool {
	ended := false
	for _, u := range units {
		name := podresources.Unit{Resource: resource, ID: u.ID}
		a := b.allocations[name]
		if a != nil && b.opts.ResetAfterUse != nil && b.opts.ResetAfterUse(a.device) {
			b.drop(name)
			ended = true
		}
	}
	return ended
}
