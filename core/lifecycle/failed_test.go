package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// refusal is an error of a backend's.
func refusal(code codes.Code, message string) error {
	return &supervisor.CallError{Backend: "mock", Call: "Prepare", Message: message, Err: status.Error(code, message)}
}

// Verifies that no new claim gets a device whose preparation failed, for a while that doubles with each failure in a
// row; that a claim which has it all the same may be prepared; and that the device is healthy when that worked.
func TestDeviceThatCannotBePrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, devices := claimRig(t)
		var changed atomic.Int32
		r.l.opts.Changed = func() { changed.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.l.Run(ctx) }()
		go func() { ended <- r.book.Run(ctx) }()
		faults := func() map[inventory.Key]health.Fault {
			synctest.Wait()
			return r.l.Faults(&health.View{})
		}
		prepare := func(err error) {
			t.Helper()
			before := changed.Load()
			p.err = err
			if got := r.l.PrepareClaim(ctx, limited(time.Minute, ClaimDevice{Device: devices["a"], Request: "one"}, ClaimDevice{Device: devices["d"], Request: "two", Admin: true})); (got == nil) != (err == nil) {
				t.Fatalf("%v, want %v", got, err)
			}
			if changed.Load() == before {
				t.Error("no other round is asked for")
			}
			r.l.Update() // as the round does
		}
		for failures, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			prepare(refusal(codes.Internal, "the bitstream does not fit"))
			all := faults()
			f := all[devices["a"].Key]
			if len(all) != 1 || f.Code != "preparation-failed" || !strings.Contains(f.Message, fmt.Sprintf("%d times in a row", failures+1)) || !strings.Contains(f.Message, "the bitstream does not fit") {
				t.Fatalf("after %d failures: the faults are %v", failures+1, all)
			}
			if v := (health.Verdict{Faults: []health.Fault{f}}); !MayPrepare(v) {
				t.Error("kubelet cannot try again")
			}
			<-time.After(pause - time.Second)
			if len(faults()) != 1 {
				t.Errorf("after %d failures: the device is chosen again before %s", failures+1, pause)
			}
			before := changed.Load()
			<-time.After(pause/2 + 2*time.Second) // with the jitter
			if len(faults()) > 0 || changed.Load() == before {
				t.Errorf("after %d failures: it is not chosen again after %s", failures+1, pause*3/2)
			}
		}
		prepare(refusal(codes.Internal, "the bitstream does not fit"))
		prepare(nil)
		if all := faults(); len(all) > 0 {
			t.Errorf("it was prepared, and the faults are %v", all)
		}
		prepare(refusal(codes.DeadlineExceeded, "it did not answer"))
		if f := faults()[devices["a"].Key]; !strings.Contains(f.Message, "1 times in a row") {
			t.Errorf("the failures before one that worked count: %v", f)
		}
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
}

// Verifies that claims get a device as before when it is not to blame for a failed preparation, or when the claim keeps
// it, as nothing in it is slow to prepare.
func TestFailuresThatBlameNoDevice(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context //nolint:containedctx // of a case
		err   error
		limit time.Duration
	}{
		"parameters":         {t.Context(), refusal(codes.InvalidArgument, "no such bitstream"), time.Minute},
		"no backend":         {t.Context(), fmt.Errorf("Prepare: %w", supervisor.ErrNotRunning), time.Minute},
		"a crash":            {t.Context(), &supervisor.CallError{Message: "the backend stopped", Err: errors.Join(supervisor.ErrNotRunning, errors.New("EOF"))}, time.Minute},
		"the claim ended":    {canceled, context.Canceled, time.Minute},
		"prepared at starts": {t.Context(), refusal(codes.Internal, "it is busy"), 0},
	} {
		r, p, devices := claimRig(t)
		p.err = c.err
		if err := r.l.PrepareClaim(c.ctx, limited(c.limit, ClaimDevice{Device: devices["a"], Request: "one"})); err == nil {
			t.Errorf("%s: no error", name)
		}
		if all := r.l.Faults(&health.View{}); len(all) > 0 {
			t.Errorf("%s: the faults are %v", name, all)
		}
	}
}

// limited is what the claim is to get within the limit.
func limited(limit time.Duration, devices ...ClaimDevice) ClaimRequest {
	r := asked(theClaim, devices...)
	r.Limit = limit
	return r
}
