package holders

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
)

// use is the way in which a holder has a device, or is to have it.
type use struct {
	// claim is nil for a container, which has a unit of a resource: a replica, or the whole device.
	claim    *Claim
	resource string
	replica  bool
	// shared: a claim has a share of the device.
	shared bool
}

// excludes reports whether a device cannot be used in both ways at the same time:
//
//	                 | replica | whole device | share of a claim | claim
//	replica          | no      | yes          | yes              | yes
//	whole device     | yes     | yes (1)      | yes              | yes
//	share of a claim | yes     | yes          | no (2)           | yes
//	claim            | yes     | yes          | yes              | yes (3)
//
// (1) Not of the same resource: kubelet gives a unit to one container at a time. (2) If there is enough for both, see
// exceeding. (3) A claim does not exclude itself: it may be prepared again.
func (u use) excludes(o use) bool {
	switch {
	case u.claim != nil && o.claim != nil:
		return u.claim.ref() != o.claim.ref() && (!u.shared || !o.shared)
	case u.claim != nil || o.claim != nil:
		return true
	}
	return (u.resource != o.resource || u.replica != o.replica) && (!u.replica || !o.replica)
}

func (a *allocation) use(name podresources.Unit) use {
	return use{claim: a.holder.claim, resource: name.Resource, replica: isReplica(name.ID), shared: a.shared}
}

// Excludes reports whether this allocation forbids another unit of the device. resource is
// that of the other unit; replica reports that it is a replica, not the whole device.
func (a Allocation) Excludes(resource string, replica bool) bool {
	own := use{claim: a.Claim, resource: a.Resource, replica: isReplica(a.Unit)}
	return own.excludes(use{resource: resource, replica: replica})
}

// HeldError is the error for a device of which another holder has something that excludes what is asked for.
type HeldError struct{ Allocation }

func (e *HeldError) Error() string { return fmt.Sprintf("device %s: %s", e.Device, e.Message()) }

// excluding returns a HeldError with the oldest allocation that excludes a use of the device; nil for none. The caller holds
// b.mu.
func (b *Book) excluding(device inventory.Key, u use) error {
	excluded := map[podresources.Unit]bool{}
	for name, a := range b.byDevice[device] {
		if a.use(name).excludes(u) {
			excluded[name] = true
		}
	}
	if len(excluded) == 0 {
		return nil
	}
	for _, a := range b.allocationsOf(device) {
		if excluded[podresources.Unit{Resource: a.Resource, ID: a.Unit}] {
			return &HeldError{a}
		}
	}
	return nil
}
