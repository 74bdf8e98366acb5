package holders

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// Find asks kubelet for the pod with these units of the resource; see [podresources.Kubelet.Find].
func (b *Book) Find(ctx context.Context, resource string, units []string) (podresources.Pod, error) {
	return b.opts.Kubelet.Find(ctx, resource, units, b.listedFor(resource, units))
}

// listedFor returns a container of the one pod that all the units were listed for last, or zero.
func (b *Book) listedFor(resource string, units []string) (pod podresources.Container) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, id := range units {
		a := b.allocations[podresources.Unit{Resource: resource, ID: id}]
		if a == nil || len(a.seen.Containers) == 0 {
			return podresources.Container{}
		}
		for j, c := range a.seen.Containers {
			switch {
			case i == 0 && j == 0:
				pod = c
			case c.Namespace != pod.Namespace || c.Pod != pod.Pod:
				return podresources.Container{}
			}
		}
	}
	return pod
}

// apply changes the book by a list of kubelet's pods.
func (b *Book) apply(l podresources.List) {
	units := l.Units()
	unseen := b.see(l, units)
	gone := b.opts.Kubelet.Gone(l, unseen)
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := false
	for _, name := range gone {
		if a := b.allocations[name]; a != nil && a.seen.Since.Equal(unseen[name]) {
			b.drop(name)
			ended = true
		}
	}
	if ended {
		wake.Send(b.file.outdated)
		wake.Send(b.changed)
	}
}

// see records what a list shows. It returns the units that only kubelet's checkpoint can end, with the times of their
// allocations.
func (b *Book) see(l podresources.List, units map[podresources.Unit][]podresources.Container) (unseen map[podresources.Unit]time.Time) {
	found, unresolved := b.resolve(l, units)
	b.mu.Lock()
	defer b.mu.Unlock()
	suspects := b.confirm(l, unresolved)
	changed := b.seeClaims(l)
	for name, a := range found {
		// It may have been allocated while Resolve was called.
		if b.allocations[name] == nil {
			b.put(name, a)
			changed = true
		}
	}
	unseen = map[podresources.Unit]time.Time{}
	for name, a := range b.allocations {
		if a.holder.Kind == KindClaim {
			continue
		}
		if containers, there := units[name]; there {
			changed = a.seen.See(l, containers) || changed
			continue
		}
		switch gone, is := a.seen.Miss(l); {
		case gone:
			b.drop(name)
			changed = true
		case is:
			changed = true
			b.opts.Kubelet.Soon()
		case a.seen.IsUnseen(l):
			unseen[name] = a.seen.Since
		}
	}
	if b.unconfirmed.lost { // who had them is not known, nor whether their reset was due
		for _, device := range suspects {
			b.requireReset(device)
		}
	}
	if changed {
		wake.Send(b.file.outdated)
		wake.Send(b.changed)
	}
	return unseen
}

// confirm records which devices count as held though nothing is known of their allocation. It returns those that did so
// until now, if the list shows all allocations. The caller holds b.mu.
func (b *Book) confirm(l podresources.List, unresolved map[string]bool) (suspects []inventory.Key) {
	u, conclusive := &b.unconfirmed, l.Conclusive()
	different := !maps.Equal(u.unresolved, unresolved)
	if different || conclusive && !u.complete {
		wake.Send(b.changed)
	}
	u.unresolved = unresolved
	if conclusive {
		suspects = slices.Collect(maps.Keys(u.suspects))
		u.complete = true
		clear(u.suspects)
	}
	if different || conclusive {
		wake.Send(b.ended.added)
	}
	return suspects
}

// seeClaims records the containers that kubelet lists with claims, and reports whether one
// changed. The caller holds b.mu.
func (b *Book) seeClaims(l podresources.List) (changed bool) {
	changed = b.seeUnread(l)
	listed := l.Claims()
	for _, a := range b.allocations {
		if c := a.holder.claim; c != nil {
			changed = a.seen.See(l, listed[podresources.Claim{Namespace: c.Namespace, Name: c.Name}]) || changed
		}
	}
	return changed
}

// seeUnread gives the claims whose files could not be read the devices that kubelet lists for them. The
// caller holds b.mu.
func (b *Book) seeUnread(l podresources.List) (changed bool) {
	if len(b.claims.unreadable) == 0 {
		return false
	}
	for claim, name := range l.CDINames {
		device, uid := cdi.ParseHolderName(name)
		for i := range b.claims.unreadable {
			c := Claim{Driver: i.Driver, UID: i.UID, Namespace: claim.Namespace, Name: claim.Name}
			if string(i.UID) != uid || b.claims.ended[i] || b.claims.all[i] != nil || b.allocations[claimed(c, device)] != nil {
				continue
			}
			b.giveClaim(c, []ClaimedDevice{{Device: device}})
			changed = true
		}
	}
	return changed
}

// resolve returns allocations of the listed units that the book does not have, and the IDs
// of those whose device is not known yet.
func (b *Book) resolve(l podresources.List, listed map[podresources.Unit][]podresources.Container) (found map[podresources.Unit]*allocation, unresolved map[string]bool) {
	var unknown []podresources.Unit
	b.mu.Lock()
	suspects := b.unconfirmed.byID()
	for name := range listed {
		if b.allocations[name] == nil {
			unknown = append(unknown, name)
		}
	}
	b.mu.Unlock()
	found, unresolved = map[podresources.Unit]*allocation{}, map[string]bool{}
	type key struct {
		podresources.Container
		resource string
	}
	holders := map[key]*holder{} // a container's units of a resource have one holder
	for _, name := range unknown {
		id, _, _ := strings.Cut(name.ID, inventory.IDMark)
		device, ok := b.opts.Resolve(name.Resource, name.ID)
		if !ok {
			device, ok = suspects[id]
		}
		switch {
		case ok:
			of := key{listed[name][0], name.Resource}
			holders[of] = cmp.Or(holders[of], newHolder())
			found[name] = &allocation{holder: holders[of], device: device, started: true, seen: podresources.Presence{Since: l.Began}}
		case b.opts.Owns != nil && b.opts.Owns(name.Resource):
			unresolved[id] = true
		}
	}
	return found, unresolved
}
