package lifecycle

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// used is a rig that runs, with two devices of one reset group, whose resource resets them after use.
type used struct {
	*rig
	t    *testing.T
	all  *inventory.Snapshot
	stop func()
}

func newUsed(t *testing.T) *used {
	t.Helper()
	u := &used{rig: newRig(t), t: t, all: many(2)}
	u.all.Backends[0].Description.Reset = true
	for _, d := range u.all.Backends[0].Devices {
		d.ResetGroup = "g"
	}
	u.set(config.ResetDevicesAfterUse)
	u.run()
	return u
}

// run runs the book and the lifecycle.
func (u *used) run() {
	ctx, cancel := context.WithCancel(u.t.Context())
	u.stop = func() {
		cancel()
		synctest.Wait() // they write no more
	}
	go func() { _ = u.book.Run(ctx) }()
	go func() { _ = u.l.Run(ctx) }()
}

// set makes a round with the devices in a resource with that reset.
func (u *used) set(reset config.ResourceReset) {
	u.t.Helper()
	r := roundWith(u.all, newJudge(u.t).Judge(u.all))
	res := &resource.Resource{Resource: config.Resource{Name: gpu, Injection: config.InjectCDI, Reset: reset}}
	for _, d := range u.all.Backends[0].Devices {
		res.Devices = append(res.Devices, resource.Device{Device: d})
	}
	u.round = round.New(round.Round{Profile: r.Profile, Snapshot: u.all, Health: r.Health, Table: &resource.Table{Resources: []*resource.Resource{res}}})
}

func (u *used) device(i int) *inventory.Device { return u.all.Backends[0].Devices[i] }

// end ends the holder of a whole device.
func (u *used) end(device *inventory.Device) {
	u.l.Return(Request{Resource: gpu, Units: []Unit{{ID: device.ID, Device: device}}})
}

// check compares how many resets there were, and what the fault of each device says; "" for no fault.
func (u *used) check(what string, resets int, messages ...string) {
	u.t.Helper()
	for range 2 { // what a reset ends is in the next round
		u.l.Update()
		synctest.Wait()
	}
	if len(u.backend.resets) != resets {
		u.t.Errorf("%s: resets of %v, want %d", what, u.backend.resets, resets)
	}
	faults := u.l.Faults(u.round.Health)
	for i, message := range messages {
		fault, ok := faults[u.device(i).Key]
		if ok != (message != "") || !strings.Contains(fault.Code+": "+fault.Message, message) {
			u.t.Errorf("%s: the fault of device %d is %+v, want %q", what, i, fault, message)
		}
	}
}

// Verifies that a device is reset when its last holder has ended: with its group, when no device of that
// is held, and again until it worked. Until then it has a fault that says what the reset waits for.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsed(t)
		defer u.stop()
		u.check("nothing was used", 0, "", "")
		u.take(t, u.device(0))
		u.take(t, u.device(1))
		u.check("both are held", 0, "", "")
		u.end(u.device(0))
		u.check("one ended", 0, "reset-after-use: it was used, and no other container gets it before a reset: the reset waits until the container that has device mock-1", "reset-pending")
		u.end(u.device(1))
		u.check("both ended, and the reset failed", 1, "the last reset failed: 2 devices, the first mock-0, did not recover: scripted; the reset is tried again; if it keeps failing, reboot the node", "reset-after-use")
		u.backend.recovers.Store(true)
		time.Sleep(2 * u.l.opts.ResetBackoff) //nolint:forbidigo // the bubble's time
		u.check("the second one worked", 2, "", "")
		u.take(t, u.device(0))
	})
}

// Verifies that a restart of the agent does not forget a reset that is due, that no device is reset which
// the backend has yet to release, and that a resource that no longer asks for the reset does not get it.
func TestDueReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsed(t)
		u.device(0).Hooks.Release = true
		u.backend.unreleased.Store(true)
		u.take(t, u.device(0))
		u.take(t, u.device(1))
		u.end(u.device(0))
		u.end(u.device(1)) // of the same group, and needs no release
		u.check("the release fails", 0, "the backend has to release it first", "the backend has to release mock-0 of its reset group first")
		u.stop()
		u.reopen(t)
		u.run()
		defer func() { u.stop() }()
		u.check("after a restart", 0, "the backend has to release it first", "the backend has to release mock-0 of its reset group first")
		u.backend.unreleased.Store(false)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		u.check("the release worked", 1, "the last reset failed", "the last reset failed")
		u.set(config.ResetDevicesNever)
		u.check("it is turned off", 1, "", "")
		u.set(config.ResetDevicesAfterUse)
		u.check("it is turned on again", 1, "", "")
	})
}
