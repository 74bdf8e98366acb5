package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// claimDriver is the driver of backend iota.
const claimDriver = "iota.accelmux.io"

// startClaim does what the control plane and kubelet do for a pod with a new claim: one to three of the
// devices that are published and free are allocated, and kubelet has the claim prepared.
func (w *world) startClaim(ctx context.Context, arg int) error {
	return w.startPod(ctx, &podClaim{shape: newShape(arg)})
}

// reuseClaim starts a pod with a claim that has outlived its last one.
func (w *world) reuseClaim(ctx context.Context, arg int) error {
	before, ok := w.claims.takeIdle(arg)
	if !ok {
		return errSkip
	}
	claim := &podClaim{Claim: before.Claim, shape: before.shape}
	err := w.startPod(ctx, claim)
	if errors.Is(err, errSkip) {
		w.claims.addIdle(before)
	}
	return err
}

// startPod starts a pod with a claim that is not allocated.
func (w *world) startPod(ctx context.Context, claim *podClaim) error {
	if w.claims.kubelet == nil || !w.m.kubelet {
		return errSkip
	}
	if w.rushed && w.resetPending() {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if len(w.claims.living()) >= maxPods {
		if err := w.endClaimPod(ctx, 0); err != nil {
			return err
		}
	}
	pod := fmt.Sprintf("pod-%d", w.next())
	certain, err := w.allocateClaim(ctx, pod, claim)
	if err != nil {
		return err
	}
	w.claims.add(claimPod{name: pod, claim: claim})
	return w.prepareClaim(ctx, pod, claim, certain)
}

func (c *claims) add(p claimPod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = append(c.pods, p)
}

// takeIdle returns a claim that has no pods, which is no longer idle.
func (c *claims) takeIdle(arg int) (*podClaim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	claim, ok := pick(c.idle, arg)
	c.idle = slices.DeleteFunc(c.idle, func(other *podClaim) bool { return other == claim })
	return claim, ok
}

func (c *claims) addIdle(claim *podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, claim)
}

// allocateClaim allocates a claim for a pod, and creates it if it is new: it gets the first devices
// without a taint that no other claim of the API server has, and admin access to the first other one.
// certain: it must be possible to prepare it.
func (w *world) allocateClaim(ctx context.Context, pod string, claim *podClaim) (certain bool, err error) {
	published, err := w.claims.published(ctx)
	if err != nil {
		return false, err
	}
	taken, err := w.claims.allocated(ctx)
	if err != nil {
		return false, err
	}
	certain = !w.rushed && !w.m.away && !w.anyDown() && w.canPrepare(w.m.iota)
	switch {
	case claim.profile != "":
		claim.choosePartition(published, taken)
		certain = certain && !w.claims.overlap(claim)
	case claim.share > 0:
		free, err := w.chooseShare(ctx, claim, published)
		if err != nil {
			return false, err
		}
		certain = certain && free
	default:
		certain = w.chooseDevices(claim, published, taken) && certain
	}
	certain = certain && w.m.claimed()
	if len(claim.all()) == 0 {
		return false, errSkip
	}
	if claim.UID == "" {
		created, err := w.claims.api.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", w.next())}, Spec: claim.spec(),
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		claim.Claim = kubelettest.Claim{Namespace: created.Namespace, Name: created.Name, UID: string(created.UID)}
	}
	w.claims.known[claim.UID] = claim
	allocation := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Config: claim.configuration()}}
	for _, id := range claim.all() {
		result := resourceapi.DeviceRequestAllocationResult{Request: claim.request(id), Driver: claimDriver, Pool: nodeName, Device: published[id].Name}
		if result.Request == adminRequest {
			result.AdminAccess = new(true)
		}
		claim.consume(&result)
		allocation.Devices.Results = append(allocation.Devices.Results, result)
	}
	return certain, w.claims.update(ctx, claim, func(s *resourceapi.ResourceClaimStatus) {
		s.Allocation, s.ReservedFor = allocation, []resourceapi.ResourceClaimConsumerReference{reserve(pod)}
	})
}

// chooseDevices chooses a claim's devices as the scheduler does, and reports whether they are surely free.
func (w *world) chooseDevices(claim *podClaim, published map[string]resourceapi.Device, taken map[string]bool) bool {
	holds, certain := w.holds(), true
	for _, d := range w.m.iota.devices {
		p, ok := published[d.id]
		switch {
		case !ok:
		case len(p.Taints) == 0 && !taken[p.Name] && len(claim.devices) < claim.count:
			claim.devices = append(claim.devices, d.id)
			certain = certain && len(holders(holds, d.id)) == 0 && w.m.deviceHealth(w.m.iota, d, holds) == healthy
		case claim.admins && len(claim.admin) == 0:
			claim.admin = append(claim.admin, d.id)
			certain = certain && w.m.published(holds)[d.id]&absent == 0
		}
	}
	return certain
}

// allocated are the names of the devices of the API server's claims, but for those with admin access.
func (c *claims) allocated(ctx context.Context) (map[string]bool, error) {
	list, err := c.api.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, claim := range list.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			names[r.Device] = names[r.Device] || r.AdminAccess == nil
		}
	}
	return names, nil
}

// prepareClaim has kubelet prepare a claim for a pod, which must be possible within the bound if it is
// certain, and otherwise is tried once: a pod for which it fails ends.
func (w *world) prepareClaim(ctx context.Context, pod string, claim *podClaim, certain bool) error {
	var names []string
	var err error
	prepare := func() bool {
		limited, cancel := context.WithTimeout(ctx, w.bound)
		defer cancel()
		names, err = w.claims.kubelet.PrepareClaim(limited, pod, claim.Claim)
		claim.failed = claim.failed || err != nil
		return err == nil
	}
	what := fmt.Sprintf("%s (%s) with devices %v, and admin access to %v", claim.Name, claim.UID, claim.devices, claim.admin)
	if prepare(); err != nil && certain && !claim.refused() {
		if late := w.await(ctx, serves, what+" is not prepared", prepare); late != nil {
			return fmt.Errorf("%w: %w", late, err)
		}
	}
	if err != nil {
		w.watch.remark(fmt.Sprintf("%s was not prepared: %v", what, err))
		w.finishClaim(pod)
		if certain && !strings.Contains(err.Error(), "the parameters") {
			return &violation{serves, fmt.Sprintf("%s has the parameters %d, and the error is not about them: %v", what, claim.parameters, err)}
		}
		return nil
	}
	if claim.refused() {
		return &violation{serves, fmt.Sprintf("%s was prepared with the parameters %d", what, claim.parameters)}
	}
	claim.prepared, claim.damaged, claim.excused = true, false, false
	return w.takeClaim(pod, claim, names)
}

// takeClaim notes the CDI names of a claim.
func (w *world) takeClaim(pod string, claim *podClaim, names []string) error {
	var want []string
	for _, id := range claim.all() {
		want = append(want, claim.cdiName(id))
	}
	slices.Sort(want)
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, want) {
		return &violation{namesResolve, fmt.Sprintf("%s has %v, want %v", claim.Name, names, want)}
	}
	definitions := w.definitions()
	for _, id := range claim.all() {
		name := claim.cdiName(id)
		now := given{Pod: pod, Resource: claim.Name, Name: name, Meant: definitions(name), claim: claim}
		if message := claim.message(claim.request(id)); now.Meant != "" && !strings.Contains(now.Meant, `"ACCELMUX_MOCK_MESSAGE=`+message+`"`) && message != "" {
			return &violation{serves, fmt.Sprintf("the containers of %s find no message %q for %s, but %s", claim.Name, message, id, now.Meant)}
		}
		if now.Meant != "" && !claim.hasShare(now.Meant) {
			return &violation{sharesHold, fmt.Sprintf("the containers of %s find no amount of %d, but %s", claim.Name, claim.share, now.Meant)}
		}
		for _, g := range w.given {
			if g.Name == name && g.claim == claim && g.Meant != "" {
				now.Meant = g.Meant // the claim's other pod has it
			}
		}
		w.given = append(w.given, now)
	}
	return nil
}

// shareClaim starts another pod with a claim. Kubelet prepares it again, or knows that it is prepared.
func (w *world) shareClaim(ctx context.Context, arg int) error {
	p, ok := pick(w.claims.living(), arg)
	if !ok || !w.m.kubelet || p.claim.lost || len(w.claims.living()) >= maxPods {
		return errSkip
	}
	pod := fmt.Sprintf("pod-%d", w.next())
	certain := !w.rushed && !w.m.away && w.canPrepare(w.m.iota) && !w.anyDown() && !p.claim.damaged && !w.m.unsaved
	err := w.claims.update(ctx, p.claim, func(s *resourceapi.ResourceClaimStatus) { s.ReservedFor = append(s.ReservedFor, reserve(pod)) })
	if err != nil {
		return err
	}
	w.claims.add(claimPod{name: pod, claim: p.claim})
	return w.prepareClaim(ctx, pod, p.claim, certain)
}
