package lifecycle

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that the release of a device that is just being reset with its group is done
// when that has ended, not forgotten.
func TestReleaseWaitsForReset(t *testing.T) {
	r := newRig(t)
	var called []string
	r.l.opts.Backends = releaser{r.backend, &called}
	r.round = roundOf(&inventory.Device{Key: keyA, Hooks: inventory.Hooks{Release: true}})
	end, _ := r.book.BeginReset([]inventory.Key{keyA, keyB})
	r.l.release(t.Context(), []holders.Ended{{Holder: holders.Ref{Kind: holders.KindContainer, ID: "h"}, Device: keyA}})
	if len(called) > 0 {
		t.Errorf("released during the reset: %q", called)
	}
	end()
	r.l.calls.Wait()
	if !slices.Equal(called, []string{"a"}) {
		t.Errorf("released after the reset: %q", called)
	}
}

// Verifies that the device of a holder that ended before the backend has reported its devices is
// released when it has; and that nothing is done for a device that is gone, and for a backend that is no
// longer configured.
func TestReleaseWaitsForTheReport(t *testing.T) {
	r := newRig(t)
	var called []string
	r.l.opts.Backends = releaser{r.backend, &called}
	device := &inventory.Device{Key: keyA, Hooks: inventory.Hooks{Release: true}}
	ended := func(key inventory.Key) holders.Ended {
		return holders.Ended{Holder: holders.Ref{Kind: holders.KindClaim, ID: "uid"}, Device: key}
	}
	for _, r.round = range []*round.Round{nil, roundWith(&inventory.Snapshot{}, &health.View{})} {
		if r.l.tryRelease(t.Context(), ended(keyA)) || len(called) > 0 || len(r.l.Problems()) != 1 {
			t.Errorf("before the report, round %v: called %q, problems %v", r.round, called, r.l.Problems())
		}
	}
	if !r.l.tryRelease(t.Context(), ended(inventory.Key{Backend: "gone", ID: "a"})) {
		t.Error("a backend that is no longer configured is waited for")
	}
	r.round = roundOf(device)
	if !r.l.tryRelease(t.Context(), ended(keyA)) || !slices.Equal(called, []string{"a"}) || len(r.l.Problems()) != 0 {
		t.Errorf("after the report: called %q, problems %v", called, r.l.Problems())
	}
	if !r.l.tryRelease(t.Context(), ended(keyB)) || len(called) > 1 {
		t.Errorf("a device that is gone, of a backend that releases none: called %q", called)
	}
	r.round.Backend(keyB.Backend).Description.Release = true
	if !r.l.tryRelease(t.Context(), ended(keyB)) || !slices.Equal(called, []string{"a", "b"}) {
		t.Errorf("a device that is gone: called %q", called)
	}
}

// releaser records the devices of Release.
type releaser struct {
	*backend
	called *[]string
}

func (b releaser) Release(ctx context.Context, name string, r *backendv1.ReleaseRequest, ended func()) (*backendv1.ReleaseResponse, error) {
	for _, d := range r.GetDevices() {
		*b.called = append(*b.called, d.GetId())
	}
	return b.backend.Release(ctx, name, r, ended)
}

// undefiner records the calls of Undefine.
type undefiner struct {
	Definitions
	calls [][]inventory.Key
}

func (u *undefiner) Undefine(devices []inventory.Key, _ func(string) bool) error {
	u.calls = append(u.calls, devices)
	return nil
}

// Verifies that the definitions of a claim's devices are removed by one call.
func TestDefinitionsAreRemovedAtOnce(t *testing.T) {
	r, undefined := newRig(t), &undefiner{}
	r.round = roundOf()
	r.l.opts.Definitions = undefined
	claim := holders.Ref{Kind: holders.KindClaim, ID: "uid"}
	r.l.release(t.Context(), []holders.Ended{{Holder: claim, Device: keyA}, {Holder: claim, Device: keyB}})
	r.l.calls.Wait()
	if diff := cmp.Diff([][]inventory.Key{{keyA, keyB}}, undefined.calls); diff != "" {
		t.Errorf("undefined (-want +got):\n%s", diff)
	}
}
