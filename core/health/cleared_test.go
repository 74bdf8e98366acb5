package health

import (
	"testing"

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
