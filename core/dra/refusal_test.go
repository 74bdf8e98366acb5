package dra

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that a claim whose device is refused to another one is read at once, though kubelet lists it;
// that one which has ended is a problem while kubelet lists it; and that without that it ends half a
// minute after it was found, also if kubelet had to be waited for.
func TestEndOfARefusingClaim(t *testing.T) {
	for name, c := range map[string]struct {
		listed bool
		err    error
		want   time.Duration // until it has ended; 0: never
	}{
		"listed by nobody": {want: 30 * time.Second},
		"listed":           {listed: true},
		"not known":        {err: errors.New("kubelet has just started"), want: 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, k := newReconciler(t)
				r.record(t, "deleted", nil)
				r.record(t, "alive", nil)
				r.allocate(t, "alive", nil, result("a", "gpu-0"))
				both := map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-deleted": true, "mock.accelmux.io/holder=GPU-0::uid-alive": true}
				k.listed = both
				go func() { _ = k.Run(t.Context()) }()
				backoff.Sleep(t.Context(), time.Second)
				alive := map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-alive": true}
				if !c.listed {
					k.show(alive, c.err)
				}
				if why := k.Ended(t.Context(), holders.ClaimID{Driver: driverName, UID: "uid-alive"}); why != "" {
					t.Errorf("the one that is there: %q", why)
				}
				if why := k.Ended(t.Context(), holders.ClaimID{Driver: driverName, UID: "uid-deleted"}); why != "it was deleted" {
					t.Errorf("the deleted one: %q", why)
				}
				began := time.Now()
				for r.opts.Record.Get(driverName, "uid-deleted") != nil && time.Since(began) < 10*time.Minute {
					backoff.Sleep(t.Context(), time.Second)
					if c.err != nil && time.Since(began) == 40*time.Second {
						k.show(alive, nil)
					}
				}
				took := time.Since(began)
				if ended := took < 10*time.Minute; ended != (c.want > 0) || ended && (took < c.want || took > c.want+12*time.Second) {
					t.Errorf("it has ended: %v, after %v, want %v", ended, took, c.want)
				}
				synctest.Wait() // the round ends
				if got := messages(k.Problems()); strings.Contains(got, "ns/deleted has ended") != c.listed || strings.Contains(got, "alive") {
					t.Errorf("the problems are %q", got)
				}
			})
		})
	}
}

// Verifies that a device, or a share of it, is refused with what became of the claims that have it.
func TestRefusalNamesTheEnd(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"))
	next := r.allocate(t, "next", nil, result("a", "gpu-0"))
	gpu := inventory.Key{Backend: "mock", ID: "GPU-0"}
	old := holders.Claim{Driver: driverName, UID: "uid-old", Namespace: "ns", Name: "old"}
	alive := holders.Claim{Driver: driverName, UID: "uid-alive", Namespace: "ns", Name: "alive"}
	for _, c := range []struct {
		err       error
		why, want string
	}{
		{&holders.HeldError{Allocation: holders.Allocation{Device: gpu, Claim: &old}}, "", "device mock/GPU-0: "},
		{&holders.HeldError{Allocation: holders.Allocation{Device: gpu, Claim: &old}}, "it was deleted", "device mock/GPU-0: claim ns/old has it: it was deleted, but kubelet has not unprepared it"},
		{&holders.SharesError{Device: gpu, Capacity: "memory", Left: 4, Claims: []holders.Claim{alive, old}}, "", "has 4 left of its capacity memory, which is less than the claim's share: the claims ns/alive, ns/old have the rest"},
		{&holders.SharesError{Device: gpu, Capacity: "memory", Left: 4, Claims: []holders.Claim{alive, old}}, "it was deleted", "device mock/GPU-0: claim ns/old has a share of it: it was deleted"},
	} {
		r.lifecycle.held = c.err
		r.opts.Ended = func(_ context.Context, i holders.ClaimID) string {
			if i == old.ID() {
				return c.why
			}
			return ""
		}
		if _, problem := r.prepare(t, next); !strings.Contains(problem, c.want) {
			t.Errorf("%q: the error is %q, want %q", c.why, problem, c.want)
		}
	}
}
