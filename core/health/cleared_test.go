package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a cleared code clears that fault, also one that needs a reboot and in an
// unhealthy device, and no other, and that the reach survives a restart.
func TestClearedCodes(t *testing.T) {
	r := newRig(t, "a")
	fault := func(code string, reach backendv1.Reach) *backendv1.Health {
		return &backendv1.Health{
			State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: code, Recovery: backendv1.Recovery_RECOVERY_REBOOT, Reach: reach,
		}
	}
	for _, h := range []*backendv1.Health{fault("x", 0), fault("y", backendv1.Reach_REACH_HOLDERS)} {
		r.say("a", h)
		r.judgeNow()
	}
	r.restart()
	if f := r.judgeNow().Verdict(key("a")).Faults; len(f) != 2 || f[0].Code != "x" || f[0].Reach != inventory.ReachDevice || f[1].Reach != inventory.ReachHolders {
		t.Fatalf("faults %+v", f)
	}
	cleared := fault("y", backendv1.Reach_REACH_NEW_HOLDERS) // which is no graver
	cleared.ClearedCodes = []string{"x", "z"}
	r.say("a", cleared)
	r.judgeNow()
	r.wait(testDelay)
	if f := r.judgeNow().Verdict(key("a")).Faults; len(f) != 1 || f[0].Code != "y" || f[0].Reach != inventory.ReachHolders {
		t.Errorf("faults %+v", f)
	}
	r.say("a", &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNKNOWN, ClearedCodes: []string{"y"}})
	r.judgeNow()
	r.wait(testDelay)
	r.want("a", "")
}

// Verifies since when a device has had faults of a reach: from when a fault got that reach, over a restart too, and from
// that of an earlier fault which is still there, also if that is cleared and waits for its delay.
func TestReachSince(t *testing.T) {
	r := newRig(t, "a")
	fault := func(code string, reach backendv1.Reach) *backendv1.Health {
		h := faulty(code, reboot)
		h.Reach = reach
		return h
	}
	began := r.now
	want := func(when string, since map[string]time.Duration) {
		t.Helper()
		got := map[string]time.Duration{}
		for _, f := range r.judgeNow().Verdict(key("a")).Faults {
			got[f.Code] = f.ReachSince.Sub(began)
		}
		if diff := cmp.Diff(since, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	const minute, holders = time.Minute, backendv1.Reach_REACH_HOLDERS
	r.say("a", fault("x", backendv1.Reach_REACH_DEVICE))
	want("a lesser fault", map[string]time.Duration{"x": 0})
	r.wait(minute)
	r.say("a", fault("x", holders))
	want("that got worse", map[string]time.Duration{"x": minute})
	r.wait(minute)
	r.say("a", fault("x", backendv1.Reach_REACH_DEVICE))
	r.restart()
	want("after a restart", map[string]time.Duration{"x": minute})
	r.say("a", fault("y", holders))
	r.wait(minute)
	r.say("a", fault("z", backendv1.Reach_REACH_NEW_HOLDERS))
	want("with others", map[string]time.Duration{"x": minute, "y": minute, "z": minute})
	r.say("a", recovered())
	r.judgeNow()
	r.say("a", fault("x", holders))
	want("again before the delay has passed", map[string]time.Duration{"x": minute, "y": minute, "z": minute})
	r.say("a", recovered())
	r.judgeNow()
	r.wait(maxDelay)
	want("after the delay", map[string]time.Duration{})
	r.say("a", fault("x", holders))
	want("a new fault", map[string]time.Duration{"x": 3*minute + maxDelay})
}
