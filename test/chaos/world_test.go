package main

import (
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
}
