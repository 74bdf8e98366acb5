package holders

import (
	"context"
	"errors"
	"slices"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

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
	changed = b.listUnread(l)
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

// listUnread gives the claims whose devices are not known those that kubelet lists for them. The
// caller holds b.mu.
func (b *Book) listUnread(l listing) (changed bool) {
	if len(b.unread) == 0 {
		return false
	}
	for claim, name := range l.cdiNames() {
		for c, device := range b.unread {
			key, ok := device(name)
			if !ok || b.allocations[claimed(c, key)] != nil {
				continue
			}
			c.Namespace, c.Name = claim.namespace, claim.name
			b.giveClaim(c, []ClaimedDevice{{Device: key}})
			changed = true
		}
	}
	return changed
}

// cdiNames are the CDI names of the listed claims; a name may come several times.
func (l listing) cdiNames() func(yield func(claimName, string) bool) {
	return func(yield func(claimName, string) bool) {
		for _, pod := range l.pods {
			for _, container := range pod.GetContainers() {
				for _, claim := range container.GetDynamicResources() {
					for _, resource := range claim.GetClaimResources() {
						for _, device := range resource.GetCdiDevices() {
							if !yield(claimName{claim.GetClaimNamespace(), claim.GetClaimName()}, device.GetName()) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// ListedCDI asks kubelet for the CDI names of the claims that its pods have. The error is for a
// kubelet that does not answer, or that started so recently that it may not know its pods yet. Kubelet
// does not list ordinary init containers, nor pods that were deleted by force, though their containers
// may run.
func (b *Book) ListedCDI(ctx context.Context) (map[string]bool, error) {
	l, err := b.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if !l.conclusive(b.opts.Timing.Settle) {
		return nil, errors.New("kubelet has just started, and may not know its pods yet")
	}
	names := map[string]bool{}
	for _, name := range l.cdiNames() {
		names[name] = true
	}
	return names, nil
}
