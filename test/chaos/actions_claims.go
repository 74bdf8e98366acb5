package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// claimDriver is the driver of backend iota.
const claimDriver = "iota.accelmux.io"

// startClaim does what the control plane and kubelet do for a pod with a new claim: one to three of the
// devices that are published and free are allocated, and kubelet has the claim prepared.
func (w *world) startClaim(ctx context.Context, arg int) error {
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
	claim, certain, err := w.allocateClaim(ctx, 1+arg%3)
	if err != nil {
		return err
	}
	pod := fmt.Sprintf("pod-%d", w.next())
	w.claims.add(claimPod{name: pod, claim: claim})
	return w.prepareClaim(ctx, pod, claim, certain)
}

func (c *claims) add(p claimPod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = append(c.pods, p)
}

// allocateClaim creates a claim with the first devices that no other claim of the API server has.
// certain: it must be possible to prepare it.
func (w *world) allocateClaim(ctx context.Context, count int) (claim *podClaim, certain bool, err error) {
	published, err := w.claims.published(ctx)
	if err != nil {
		return nil, false, err
	}
	api := w.claims.api.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, false, err
	}
	for _, c := range list.Items {
		for _, r := range c.Status.Allocation.Devices.Results {
			for id, d := range published {
				if d.Name == r.Device {
					delete(published, id)
				}
			}
		}
	}
	claim = &podClaim{}
	var results []resourceapi.DeviceRequestAllocationResult
	holds := w.holds()
	certain = !w.rushed && !w.m.away && !w.anyDown() && w.canPrepare(w.m.iota) && w.m.claimed()
	for _, d := range w.m.iota.devices {
		if p, ok := published[d.id]; ok && len(p.Taints) == 0 && len(claim.devices) < count {
			claim.devices = append(claim.devices, d.id)
			results = append(results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: claimDriver, Pool: nodeName, Device: p.Name})
			certain = certain && len(holders(holds, d.id)) == 0 && w.m.deviceHealth(w.m.iota, d, holds) == healthy
		}
	}
	if len(claim.devices) == 0 {
		return nil, false, errSkip
	}
	created, err := api.Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", w.next())},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "chaos", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(len(results))},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, false, err
	}
	created.Status = resourceapi.ResourceClaimStatus{
		Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}},
	}
	claim.Claim = kubelettest.Claim{Namespace: created.Namespace, Name: created.Name, UID: string(created.UID)}
	_, err = api.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return claim, certain, err
}

// prepareClaim has kubelet prepare a claim for a pod, which must be possible within the bound if it is
// certain, and otherwise is tried once: a pod for which it fails ends.
func (w *world) prepareClaim(ctx context.Context, pod string, claim *podClaim, certain bool) error {
	var devices []*drapb.Device
	var err error
	prepare := func() bool {
		limited, cancel := context.WithTimeout(ctx, w.bound)
		defer cancel()
		devices, err = w.claims.kubelet.PrepareClaim(limited, pod, claimDriver, claim.Claim)
		return err == nil
	}
	if prepare(); err != nil && certain {
		if late := w.await(ctx, serves, fmt.Sprintf("%s with devices %v is not prepared", claim.Name, claim.devices), prepare); late != nil {
			return fmt.Errorf("%w: %w", late, err)
		}
	}
	if err != nil {
		w.watch.remark(fmt.Sprintf("%s with devices %v was not prepared: %v", claim.Name, claim.devices, err))
		w.finishClaim(pod)
		return nil //nolint:nilerr // it need not be possible
	}
	claim.prepared, claim.damaged, claim.excused = true, false, false
	return w.takeClaim(pod, claim, devices)
}

// takeClaim notes the CDI names of a claim.
func (w *world) takeClaim(pod string, claim *podClaim, devices []*drapb.Device) error {
	if len(devices) != len(claim.devices) {
		return &violation{serves, fmt.Sprintf("%s has %d devices, and %d were prepared", claim.Name, len(claim.devices), len(devices))}
	}
	definitions := w.definitions()
	for i, d := range devices {
		if want := "iota.accelmux.io/holder=" + claim.devices[i]; len(d.GetCdiDeviceIds()) != 1 || !ofClaim(d.GetCdiDeviceIds()[0]) {
			return &violation{namesResolve, fmt.Sprintf("%s has %v for %s, want a name that begins with %s", claim.Name, d.GetCdiDeviceIds(), claim.devices[i], want)}
		}
		name := d.GetCdiDeviceIds()[0]
		now := given{Pod: pod, Resource: claim.Name, Name: name, Meant: definitions(name), claim: claim}
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
	w.claims.add(claimPod{name: pod, claim: p.claim})
	return w.prepareClaim(ctx, pod, p.claim, certain)
}

func (w *world) endClaimPod(_ context.Context, arg int) error {
	p, ok := pick(w.claims.living(), arg)
	if !ok {
		return errSkip
	}
	w.finishClaim(p.name)
	return nil
}

// finishClaim ends a pod with a claim.
func (w *world) finishClaim(pod string) {
	for _, d := range w.m.iota.devices {
		w.watch.mending(d.id) // a reset may come now
	}
	name, _ := w.m.resourceOf(w.m.iota)
	w.watch.spare(name)
	w.claims.finish(pod)
}

// loseClaim deletes a claim by force, of which kubelet hears nothing: its pods run.
func (w *world) loseClaim(ctx context.Context, arg int) error {
	p, ok := pick(w.claims.living(), arg)
	if !ok || p.claim.lost {
		return errSkip
	}
	p.claim.lost = true
	return w.claims.remove(ctx, p.claim)
}

// forgetClaim has kubelet lose what it knew of a claim, whose pods and object are deleted while it does
// not run: no unprepare comes.
func (w *world) forgetClaim(ctx context.Context, arg int) error {
	p, ok := pick(w.claims.living(), arg)
	if !ok || !w.m.kubelet || w.m.away || w.m.diskFull || w.m.readOnly || w.m.unsaved {
		return errSkip
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	w.watch.spareAll()
	w.endMortal()
	if err := w.kubelet.Kill(); err != nil {
		return err
	}
	for _, other := range w.claims.living() {
		if other.claim == p.claim {
			w.finishClaim(other.name)
			w.claims.drop(other.name)
		}
	}
	if !p.claim.lost {
		if err := w.claims.remove(ctx, p.claim); err != nil {
			return err
		}
	}
	return w.kubelet.Start()
}

// startPodsAgain does what kubelet does after a reboot for the pods with claims that are still there: it
// prepares each again before it starts a container. A pod for which that fails ends.
func (w *world) startPodsAgain(ctx context.Context) error {
	for _, p := range w.claims.living() {
		holds := w.holds()
		healthy := !slices.ContainsFunc(w.m.iota.devices, func(d *device) bool {
			return slices.Contains(p.claim.devices, d.id) && w.m.deviceHealth(w.m.iota, d, holds) != healthy
		})
		certain := healthy && !p.claim.lost && !p.claim.damaged && !w.m.away && !w.anyDown() && w.canPrepare(w.m.iota)
		if !certain && w.m.away {
			w.finishClaim(p.name)
			continue
		}
		if err := w.prepareClaim(ctx, p.name, p.claim, certain); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) deleteSlices(context.Context, int) error { return w.claims.wipe() }

// damageClaim has something be wrong with the file of a claim while no agent runs.
func (w *world) damageClaim(ctx context.Context, arg int) error {
	p, ok := pick(w.claims.living(), arg)
	if !ok || w.m.diskFull || !p.claim.prepared {
		return errSkip
	}
	w.watch.spareAll()
	if err := w.endAll(ctx); err != nil {
		return err
	}
	path := w.path("disk", "state", "claims", claimDriver+"_"+p.claim.UID)
	text, err := os.ReadFile(path)
	if err != nil {
		return errors.Join(&violation{claimsEnd, fmt.Sprintf("%s is prepared, and not in the record", p.claim.Name)}, err)
	}
	if w.m.unsaved {
		w.forget()
	}
	p.claim.damaged = true
	bad, _ := pick([][]byte{text[:len(text)/2], nil, slices.Concat(text, []byte("x"))}, arg/8)
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		return err
	}
	return w.startAgent(w.runDir())
}

// switchAPI has the other API serve the devices of backend iota.
func (w *world) switchAPI(ctx context.Context, _ int) error {
	return w.configure(ctx, func() { w.m.dra = !w.m.dra }, draName)
}
