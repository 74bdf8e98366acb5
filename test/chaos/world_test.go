package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Verifies that a container has to start at once, unless the agent had to replace the
// backend by itself meanwhile: here it stands still behind the model's back.
func TestStartOfContainers(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context(), newRunner(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.stop(t.Context(), w.pid(t.Context(), w.m.alpha)); err != nil {
		t.Fatal(err)
	}
	if err := w.allocate(t.Context(), 0); err != nil || len(w.pods) != 1 {
		t.Errorf("with a backend that stands still: %v, pods %v", err, w.pods)
	}
	if err := w.settle(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, w.story())
	}
	refuses := "devices: {a-0: {prepare: {error: no}}, a-1: {prepare: {error: no}}, a-2: {prepare: {error: no}}}\n"
	if err := w.replace("alpha.yaml", refuses); err != nil {
		t.Fatal(err)
	}
	pod := w.pods[0]
	if err := w.await(t.Context(), serves, "the backend prepares", func() bool { return w.kubelet.StartContainer(t.Context(), pod) != nil }); err != nil {
		t.Fatal(err)
	}
	w.bound = time.Second
	var broken *violation
	if err := w.restartContainer(t.Context(), 0); !errors.As(err, &broken) || broken.name != serves {
		t.Errorf("with a backend that does not prepare: %v", err)
	}
	// Once, and the next time it does: nobody has replaced it.
	mends := &mendingKubelet{kubelet: w.kubelet, mend: func() error { return w.replace("alpha.yaml", "") }}
	w.kubelet, w.bound = mends, time.Minute
	if err := w.restartContainer(t.Context(), 0); !errors.As(err, &broken) || broken.name != serves {
		t.Errorf("with a backend that prepares in the end: %v", err)
	}
	if mends.err != nil {
		t.Error(mends.err)
	}
}

// mendingKubelet is a kubelet after whose every start of a container that failed something
// is mended.
type mendingKubelet struct {
	kubelet

	mend func() error
	err  error
}

func (k *mendingKubelet) StartContainer(ctx context.Context, pod string) error {
	err := k.kubelet.StartContainer(ctx, pod)
	if err != nil {
		k.err = errors.Join(k.err, k.mend())
	}
	return err
}
