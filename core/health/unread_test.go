package health

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a device which the backend could not look at is unhealthy while that lasts, also over restarts of the
// agent, and that nothing is evidence for it meanwhile: neither absence, nor time, nor what its partitions report.
func TestUnread(t *testing.T) {
	r := newRig(t, "gpu", "other", "part")
	r.devices["part"].ParentId = "gpu"
	r.say("gpu", faulty("xid", reset))
	r.want("gpu", "xid:reset")
	r.say("gpu", recovered())
	r.judgeNow()

	away := map[string]*backendv1.Device{"gpu": r.devices["gpu"], "other": r.devices["other"]}
	for id := range away {
		delete(r.devices, id)
	}
	r.unread = []*backendv1.Unread{{DeviceId: "gpu", Reason: "no driver"}, {DeviceId: "other", Reason: "no driver"}}
	r.devices["part"].Health = recovered()
	want := func(since time.Time) {
		t.Helper()
		r.want("part", "xid:reset@gpu")
		r.want("gpu", "xid:reset unread:self")
		fault := r.want("other", "unread:self").Verdict(key("other")).Faults[0]
		if fault.Reach != inventory.ReachNewHolders || !fault.Since.Equal(since) || fault.Message != "the backend could not look at it, so it is as it was then: no driver" {
			t.Errorf("the fault is %+v, want it since %v", fault, since)
		}
	}
	since := r.now
	r.report()
	want(since)
	r.wait(time.Hour)
	want(since)
	known := r.store.Snapshot().Backends
	r.newStore()
	r.store.Restore(known)
	r.open()
	r.report()
	want(since)

	r.unread, r.devices["gpu"], r.devices["other"] = nil, away["gpu"], away["other"]
	r.report()
	r.want("other", "")
	r.want("gpu", "xid:reset")
	r.judgeNow()
	r.wait(testDelay)
	r.want("gpu", "")
}
