package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
	if err := w.abandonClaim(ctx, p.claim); err != nil {
		return err
	}
	return w.kubelet.Start()
}

// abandonClaim deletes a claim and its pods, of which kubelet, which does not run, will know nothing.
func (w *world) abandonClaim(ctx context.Context, claim *podClaim) error {
	for _, p := range w.claims.all() {
		if p.claim == claim {
			w.finishClaim(p.name)
			w.claims.drop(p.name)
		}
	}
	if err := w.claims.remove(ctx, claim); !apierrors.IsNotFound(err) {
		return err
	}
	return nil // it is lost
}

// startPodsAgain does what kubelet does after a reboot for the pods with claims that are still there: it
// prepares each again before it starts a container. A pod for which that fails ends.
func (w *world) startPodsAgain(ctx context.Context) error {
	for _, p := range w.claims.living() {
		holds := w.holds()
		healthy := !slices.ContainsFunc(w.m.iota.devices, func(d *device) bool {
			return slices.Contains(p.claim.all(), d.id) && w.m.deviceHealth(w.m.iota, d, holds) != healthy
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
	// Without its file nobody knows which of its devices it does not hold.
	if !ok || w.m.diskFull || !p.claim.prepared || len(p.claim.admin) > 0 {
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
	p.claim.damaged, p.claim.spoiled = true, true
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
