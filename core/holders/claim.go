package holders

import (
	"context"
	"fmt"
	"slices"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// KindClaim is the kind of a holder that is a ResourceClaim: what one driver prepared for it.
// [Book.EndClaim] ends it; a list of kubelet's pods does not.
const KindClaim Kind = "claim"

// Claim identifies a ResourceClaim.
type Claim struct {
	// UID is unique; a claim that is created again has another one.
	UID             string
	Namespace, Name string
}

func (c Claim) ref() Ref { return Ref{KindClaim, c.UID} }

// ClaimedDevice is a device that a claim holds.
type ClaimedDevice struct {
	Device inventory.Key
	// Shared: it is a share of the device, of which other claims may have other shares.
	Shared bool
	// Reset is the device's reset scope.
	Reset ResetScope
}

// claimed returns the key of a claim's allocation of a device. Its resource is empty, so that it
// cannot be the key of a unit.
func claimed(uid string, device inventory.Key) unitName {
	return unitName{id: uid + "/" + device.String()}
}

// TakeClaim gives devices to a claim, in addition to those that it has. They are held when it
// returns nil. The book does not store them: after a restart, the caller restores them by
// RestoreClaim. It waits while a device is released, at most 30 s. It refuses a device that is
// being reset, and one that another holder has, unless both are shares.
func (b *Book) TakeClaim(ctx context.Context, claim Claim, devices []ClaimedDevice) error {
	keys := make([]inventory.Key, len(devices))
	for i, d := range devices {
		keys[i] = d.Device
	}
	return b.take(ctx, keys, func() error {
		for _, d := range devices {
			if a, ok := b.excludingClaim(claim, d); ok {
				return fmt.Errorf("device %s: %s", d.Device, a.Message())
			}
		}
		b.giveClaim(claim, devices)
		return nil
	})
}

// RestoreClaim gives a claim of the caller's record its devices, even if another holder has one. Call
// it before Run.
func (b *Book) RestoreClaim(claim Claim, devices []ClaimedDevice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveClaim(claim, devices)
	for _, d := range devices {
		delete(b.ended.sent, Ended{claim.ref(), d.Device}) // its end did not get as far as the record
	}
}

// EndClaim ends a claim: its devices are no longer held, and Ended sends them. A claim that is
// not in the book is no error.
func (b *Book) EndClaim(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, a := range b.allocations {
		if a.holder.Ref == (Ref{KindClaim, uid}) {
			b.drop(name)
			b.changes++ // what Ended sends must be on disk before the claim leaves the record
		}
	}
	wake.Send(b.file.outdated)
	wake.Send(b.changed)
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

// excludingClaim returns an allocation that forbids a claim to have a device. The caller holds
// b.mu.
func (b *Book) excludingClaim(claim Claim, d ClaimedDevice) (Allocation, bool) {
	for name, a := range b.byDevice[d.Device] {
		if a.holder.Ref == claim.ref() || a.holder.Kind == KindClaim && a.shared && d.Shared {
			continue
		}
		all := b.allocationsOf(d.Device)
		return all[slices.IndexFunc(all, func(a Allocation) bool { return a.Resource == name.resource && a.Unit == name.id })], true
	}
	return Allocation{}, false
}

// giveClaim adds devices to a claim. The caller holds b.mu.
func (b *Book) giveClaim(claim Claim, devices []ClaimedDevice) {
	var h *holder
	for _, a := range b.allocations {
		if a.holder.Ref == claim.ref() {
			h = a.holder
			break
		}
	}
	if h == nil {
		h = &holder{Ref: claim.ref(), since: b.opts.Now(), claim: &claim}
	}
	for _, d := range devices {
		name := claimed(claim.UID, d.Device)
		if b.allocations[name] == nil {
			b.put(name, &allocation{holder: h, device: d.Device, shared: d.Shared, reset: d.Reset, started: true})
		}
	}
	wake.Send(b.changed)
	wake.Send(b.poller.soon)
}

// claimName identifies a claim in a list of kubelet's pods.
type claimName struct{ namespace, name string }

// claims returns the listed claims with their containers.
func claims(pods []*podresourcesv1.PodResources) map[claimName][]Container {
	all := map[claimName][]Container{}
	for _, pod := range pods {
		for _, container := range pod.GetContainers() {
			c := Container{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Name: container.GetName()}
			for _, claim := range container.GetDynamicResources() {
				name := claimName{claim.GetClaimNamespace(), claim.GetClaimName()}
				if !slices.Contains(all[name], c) {
					all[name] = append(all[name], c)
				}
			}
		}
	}
	return all
}

// listClaims records the containers that kubelet lists with claims, and reports whether one
// changed. The caller holds b.mu.
func (b *Book) listClaims(l listing) (changed bool) {
	listed := claims(l.pods)
	for _, a := range b.allocations {
		c := a.holder.claim
		if c == nil || a.holder.since.After(l.began) {
			continue
		}
		containers := listed[claimName{c.Namespace, c.Name}]
		slices.SortFunc(containers, compareContainers)
		if !slices.Equal(containers, a.containers) {
			a.containers, changed = containers, true
		}
	}
	return changed
}
