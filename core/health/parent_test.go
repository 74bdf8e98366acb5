package health

import (
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestParents(t *testing.T) {
	r := newRig(t, "gpu", "mig0", "mig1", "ci", "other")
	r.devices["mig0"].ParentId, r.devices["mig1"].ParentId, r.devices["ci"].ParentId = "gpu", "gpu", "mig0"
	r.devices["gpu"].Edits = nil // a parent need not be usable itself
	r.report()
	r.want("gpu", "no-edits:self")
	for _, id := range []string{"mig0", "mig1", "ci", "other"} {
		r.want(id, "")
	}
	r.say("mig0", faulty("p", reset))
	r.want("mig0", "p:reset")
	r.want("ci", "p:reset@mig0")
	r.want("mig1", "")
	r.want("gpu", "no-edits:self")
	r.wait(time.Second)
	r.say("gpu", faulty("xid-79", reboot))
	r.want("gpu", "xid-79:reboot no-edits:self")
	r.want("mig0", "xid-79:reboot@gpu p:reset")
	r.want("mig1", "xid-79:reboot@gpu")
	r.want("ci", "xid-79:reboot@gpu p:reset@mig0")
	r.want("other", "")
	r.say("gpu", recovered())
	r.judgeNow()
	r.wait(testDelay)
	r.want("mig1", "")
	r.want("ci", "p:reset@mig0")
}

// Verifies that the partitions of a parent that is not listed are evidence for it, together.
func TestUnlistedParent(t *testing.T) {
	setup := func(code string, recovery backendv1.Recovery) *rig {
		r := newRig(t, "gpu")
		r.say("gpu", faulty(code, recovery))
		r.want("gpu", code+":"+strings.ToLower(strings.TrimPrefix(recovery.String(), "RECOVERY_")))
		delete(r.devices, "gpu")
		for _, id := range []string{"m0", "m1"} {
			d := r.plug(id)
			d.ParentId, d.ResetGroup, d.Health = "gpu", "g", unknown()
		}
		r.report()
		return r
	}
	t.Run("plain", func(t *testing.T) {
		r := setup("hot", self)
		r.want("m0", "hot:self@gpu")
		r.say("m0", healthy())
		r.judgeNow()
		r.wait(time.Hour)
		r.want("m0", "hot:self@gpu")
		r.say("m1", healthy())
		r.want("m1", "hot:self@gpu")
		r.wait(testDelay)
		r.want("m1", "")
	})
	t.Run("recovered", func(t *testing.T) {
		r := setup("x", reboot)
		r.say("m0", recovered())
		r.say("m1", healthy())
		r.judgeNow()
		r.wait(time.Hour)
		r.want("m0", "x:reboot@gpu")
		r.say("m1", recovered())
		r.judgeNow()
		r.wait(testDelay)
		r.want("m0", "")
	})
	t.Run("reset of all", func(t *testing.T) {
		r := setup("x", reset)
		r.want("m0", "x:reset@gpu")
		r.judge.ResetDone(key("m0"), true, "")
		r.want("m0", "x:reset@gpu")
		r.wait(testDelay)
		r.want("m1", "")
	})
	t.Run("reset of one", func(t *testing.T) {
		r := setup("x", reset)
		r.devices["m1"].ResetGroup = ""
		r.report()
		r.want("m0", "x:reset@gpu")
		r.judge.ResetDone(key("m0"), true, "")
		r.judgeNow()
		r.wait(time.Hour)
		r.want("m0", "x:reset@gpu")
	})
	t.Run("reset of one with a listed parent", func(t *testing.T) {
		r := setup("x", reset)
		r.plug("gpu")
		r.report()
		r.want("m0", "x:reset@gpu")
		r.judge.ResetDone(key("m0"), true, "")
		r.judgeNow()
		r.wait(time.Hour)
		r.want("m0", "x:reset@gpu")
	})
}
