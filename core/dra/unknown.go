package dra

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// unknown returns the devices that were made for a claim which is not in the record. Their claims'
// drivers are not known: the device stands for it.
func (r *Reconciler) unknown(all []*holders.ClaimRecord, unreadable []holders.ClaimID) map[inventory.Key]holders.ClaimID {
	unknown := map[inventory.Key]holders.ClaimID{}
	for device, holder := range r.opts.Lifecycle.Made() {
		uid := types.UID(holder)
		if !slices.ContainsFunc(all, func(c *holders.ClaimRecord) bool { return c.UID == uid }) &&
			!slices.ContainsFunc(unreadable, func(i holders.ClaimID) bool { return i.UID == uid }) {
			unknown[device] = holders.ClaimID{Driver: device.String(), UID: uid}
		}
	}
	return unknown
}

// endUnknown has a device of such a claim released.
func (r *Reconciler) endUnknown(i holders.ClaimID, device inventory.Key) error {
	if err := r.opts.Lifecycle.EndUnknownClaim(string(i.UID), device); err != nil {
		return fmt.Errorf("release device %s, which was made for claim %s: %w", device, i.UID, err)
	}
	r.log.Info("a device is released that was made for a claim which is not in the record, and with which kubelet lists no pod",
		"backend", device.Backend, "device", device.ID, "uid", i.UID)
	return nil
}

// endUnread ends a claim whose file cannot be read.
func (r *Reconciler) endUnread(ctx context.Context, i holders.ClaimID) error {
	unlock, err := r.opts.Record.Lock(ctx, i)
	if err != nil {
		return fmt.Errorf("end claim %s: %w", i.UID, err)
	}
	defer unlock()
	if !slices.Contains(r.opts.Record.Unreadable(), i) {
		return nil
	}
	if err := r.endClaim(holders.Claim{Driver: i.Driver, UID: i.UID}); err != nil {
		return fmt.Errorf("end claim %s: %w", i.UID, err)
	}
	r.log.Info("removed a claim whose file could not be read, and with which kubelet lists no pod", "driver", i.Driver, "uid", i.UID)
	return nil
}
