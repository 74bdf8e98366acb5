package holders

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// KindClaim is the kind of a holder that is a ResourceClaim: what one driver prepared for it.
// [Claims.End] ends it; a list of kubelet's pods does not.
const KindClaim Kind = "claim"

// Claim identifies what one driver serves of a ResourceClaim.
type Claim struct {
	// Driver is the name of the driver (resource.k8s.io/v1 DeviceRequestAllocationResult).
	Driver string `json:"driver"`
	// UID is unique; a claim that is created again has another one.
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Extended: the scheduler made the claim for a pod that asks for an extended resource.
	Extended bool `json:"extended,omitempty"`
}

// String is the claim's namespace and name, for messages.
func (c Claim) String() string { return c.Namespace + "/" + c.Name }

func (c Claim) ref() Ref { return Ref{KindClaim, string(c.UID)} }

// ClaimedDevice is a device that a claim holds.
type ClaimedDevice struct {
	Device inventory.Key
	// Shared: it is a share of the device, of which other claims may have other shares. Amounts are what the
	// share has of each capacity that is divided, Capacities how much the device has of these.
	Shared              bool
	Amounts, Capacities map[string]int64
	// Reset is the device's reset scope.
	Reset ResetScope
	// Excluded are the devices whose releases, of any holder, must have ended before: the device and they
	// do not exist at the same time.
	Excluded []inventory.Key
}

// claimed returns the key of a claim's allocation of a device. Its resource is empty, so that it
// cannot be the key of a unit.
func claimed(claim Claim, device inventory.Key) podresources.Unit {
	return podresources.Unit{ID: claim.Driver + "/" + string(claim.UID) + "/" + device.String()}
}

// is reports whether this is the holder of what the driver serves of the claim.
func (h *holder) is(i ClaimID) bool {
	return h.claim != nil && h.claim.ID() == i
}

// SharesError is the error of [Book.TakeClaim] for a share that is more than other claims have left of the device.
type SharesError struct {
	Device inventory.Key
	// Capacity is that of which too little is left, Left how much.
	Capacity string
	Left     int64
	// Claims have the rest, the oldest first.
	Claims []Claim
}

func (e *SharesError) Error() string {
	names := make([]string, len(e.Claims))
	for i, c := range e.Claims {
		names[i] = c.Namespace + "/" + c.Name
	}
	return fmt.Sprintf("device %s has %d left of its capacity %s, which is less than the claim's share: the claims %s have the rest; the start is tried again",
		e.Device, e.Left, e.Capacity, strings.Join(names, ", "))
}

// TakeClaim gives devices to a claim, in addition to those that it has. They are held when it
// returns nil. Put or Expect of [Claims] must follow. It waits while a device is released, at most 30 s, while its reset after use is due, at most 10 s, and until those that the claim had
// before, and those that they exclude, have been released, at most 10 s. It refuses a device that is being reset, and one that another holder
// has (a HeldError) or may have, unless both are shares of which the device has enough (else a SharesError).
func (b *Book) TakeClaim(ctx context.Context, claim Claim, devices []ClaimedDevice) error {
	keys, own, excluded := make([]inventory.Key, len(devices)), map[Ended]bool{}, map[inventory.Key]bool{}
	for i, d := range devices {
		keys[i], own[Ended{claim.ref(), d.Device}] = d.Device, true
		for _, key := range d.Excluded {
			excluded[key] = true
		}
	}
	if err := b.awaitReleased(ctx, func(e Ended) bool { return own[e] || excluded[e.Device] }); err != nil {
		return err
	}
	return b.take(ctx, keys, reuseLimit, func() error {
		_, again := b.claims.unreadable[claim.ID()] // they are known now
		for _, d := range devices {
			if b.unconfirmed.has(d.Device) && len(b.byDevice[d.Device]) == 0 && !again {
				return fmt.Errorf("device %s: another holder may have it: the agent has just started, and kubelet has not listed its pods yet; the start is tried again", d.Device)
			}
			if err := b.excluding(d.Device, use{claim: &claim, shared: d.Shared}); err != nil {
				return err
			}
			if err := b.exceeding(claim, d); err != nil {
				return err
			}
		}
		b.giveClaim(claim, devices)
		return nil
	})
}

// EndUnknown has a device released that a backend made for a claim which does not have it: the record of
// claims was lost. It does nothing while the device is released, or if the claim has it.
func (b *Book) EndUnknown(uid string, device inventory.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := Ended{Ref{KindClaim, uid}, device}
	if _, pending := b.ended.sent[ended]; pending || len(b.ended.sent) >= maxEnded {
		return
	}
	for _, a := range b.byDevice[device] {
		if a.holder.Ref == ended.Holder {
			return
		}
	}
	b.ended.sent[ended] = false
	b.changes++
	wake.Send(b.ended.added)
}

// HeldByOthers reports whether another holder than the claim has the device, or may have it.
func (b *Book) HeldByOthers(device inventory.Key, uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.byDevice[device] {
		if a.holder.Ref != (Ref{KindClaim, uid}) {
			return true
		}
	}
	return b.unconfirmed.has(device)
}

// exceeding returns an error if the shares of other claims leave too little of the device. That is so when a
// claim was deleted and its pods still run: the scheduler allocates its share again. The caller holds b.mu.
func (b *Book) exceeding(claim Claim, d ClaimedDevice) error {
	for _, capacity := range slices.Sorted(maps.Keys(d.Amounts)) {
		var taken int64
		for _, a := range b.byDevice[d.Device] {
			if a.holder.Ref != claim.ref() {
				taken += a.amounts[capacity]
			}
		}
		if taken == 0 || d.Amounts[capacity] <= d.Capacities[capacity]-taken {
			continue
		}
		e := &SharesError{Device: d.Device, Capacity: capacity, Left: d.Capacities[capacity] - taken}
		for _, a := range b.allocationsOf(d.Device) {
			if a.Claim != nil && a.Claim.ref() != claim.ref() {
				e.Claims = append(e.Claims, *a.Claim)
			}
		}
		return e
	}
	return nil
}

// giveClaim adds devices to a claim. The caller holds b.mu.
func (b *Book) giveClaim(claim Claim, devices []ClaimedDevice) {
	var h *holder
	for _, a := range b.allocations {
		if a.holder.is(claim.ID()) {
			h = a.holder
			break
		}
	}
	if h == nil {
		h = &holder{Ref: claim.ref(), claim: &claim}
	}
	for _, d := range devices {
		name := claimed(claim, d.Device)
		if b.allocations[name] == nil {
			b.put(name, &allocation{holder: h, device: d.Device, shared: d.Shared, amounts: d.Amounts, reset: d.Reset, started: true, seen: podresources.Presence{Since: b.opts.Now()}})
		}
	}
	wake.Send(b.changed)
	b.opts.Kubelet.Soon()
}
