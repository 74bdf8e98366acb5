package dra

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Verifies that kubelet does not wait for a device that is slow to prepare, nor for its other claims meanwhile; that
// its next calls get the result, also after a reboot; that a failure is reported and the preparation tried again;
// and that an unprepare and the driver's end cancel it.
func TestSlowPreparation(t *testing.T) {
	r := newRig(t)
	publish := func() { r.publish(t, slowDevice("GPU-0"), device("GPU-1")) }
	publish()
	began, proceed, causes := make(chan struct{}), make(chan error), make(chan error, 1)
	r.lifecycle.backend = func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case err := <-proceed:
			return err
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		}
	}
	c := r.allocate(t, "slow", nil, result("a", "gpu-0"))
	want := func(text string) {
		t.Helper()
		if devices, problem := r.prepare(t, c); !strings.Contains(problem, text) || (problem == "") != (len(devices) == 1) {
			t.Fatalf("kubelet gets %v, %q, want %q", devices, problem, text)
		}
	}
	finished := func(err error) {
		t.Helper()
		proceed <- err
		until(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.preparing["uid-slow"].ended
		}, func() any { return "the preparation does not end" })
	}
	want("in preparation since")
	<-began
	want("in preparation since")
	other := r.allocate(t, "other", nil, result("a", "gpu-1"))
	r.lifecycle.mu.Lock()
	slow := r.lifecycle.backend
	r.lifecycle.backend = nil
	r.lifecycle.mu.Unlock()
	if _, problem := r.prepare(t, other); problem != "" {
		t.Errorf("another claim: %s", problem)
	}
	r.lifecycle.mu.Lock()
	r.lifecycle.backend = slow
	r.lifecycle.mu.Unlock()
	r.mu.Lock()
	_, next := r.begin(t.Context(), "uid-other", true)
	r.mu.Unlock()
	r.unprepare(t, other)
	if r.opts.Record.Get(driverName, "uid-other") != nil {
		t.Error("what kubelet has stays while the next allocation is about to be prepared")
	}
	next.cancel(nil)
	finished(errors.New("the bitstream does not fit"))
	want("the bitstream does not fit")
	want("in preparation since")
	<-began
	finished(nil)
	want("")

	r.slowAnswer = time.Minute
	r.unprepare(t, c)
	go func() {
		<-began
		proceed <- errors.New("no bitstream fits")
	}()
	want("no bitstream fits")
	go func() {
		<-began
		proceed <- nil
	}()
	want("")

	r.boot = "boot-2"
	r.stop(t)
	r.start(t)
	publish()
	want("in preparation since")
	<-began
	finished(nil)
	want("")
	if limit := r.lifecycle.prepared[len(r.lifecycle.prepared)-1].Limit; limit != slowLimit {
		t.Errorf("the backend has %s", limit)
	}

	r.unprepare(t, c)
	want("in preparation since")
	<-began
	r.unprepare(t, c)
	if err := <-causes; !errors.Is(err, errUnprepared) || r.opts.Record.Get(driverName, "uid-slow") != nil {
		t.Errorf("after an unprepare: %v, the record has %v", err, r.opts.Record.All())
	}
	until(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.preparing) == 0
	}, func() any { return "the preparation that was cancelled stays" })
	want("in preparation since")
	<-began
	r.stop(t)
	if err := <-causes; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
