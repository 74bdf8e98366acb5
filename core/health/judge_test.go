package health

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// step is one thing that happens, and what device "a" has afterwards.
type step struct {
	what func(r *rig)
	want string
}

func says(hs ...*backendv1.Health) func(*rig) {
	return func(r *rig) {
		for _, h := range hs {
			r.say("a", h)
		}
	}
}

func waits(d time.Duration) func(*rig) { return func(r *rig) { r.wait(d) } }

func resets(ok bool, message string) func(*rig) {
	return func(r *rig) { r.judge.ResetDone(key("a"), ok, message) }
}

func restarts(r *rig) { r.restart() }

func boots(r *rig) {
	r.boot += "x"
	r.restart()
}

func unplugs(r *rig) {
	delete(r.devices, "a")
	r.report()
}

func plugs(r *rig) {
	r.plug("a")
	r.report()
}

// Verifies the transitions of the drawing in the package comment.
func TestStates(t *testing.T) {
	nothing := func(*rig) {}
	for name, steps := range map[string][]step{
		"never seen faulty": {{says(unknown()), ""}, {says(healthy()), ""}, {says(recovered()), ""}},
		"self clears with healthy, after the delay": {
			{says(faulty("hot", self)), "hot:self"}, {waits(time.Hour), "hot:self"},
			{says(healthy()), "hot:self"}, {waits(testDelay - 1), "hot:self"}, {waits(1), ""}},
		"unknown does not take evidence away": {
			{says(faulty("hot", self)), "hot:self"}, {says(healthy()), "hot:self"}, {says(unknown()), "hot:self"}, {waits(testDelay), ""}},
		"reset, reboot and replacement stay with plain healthy": {
			{says(faulty("r1", reset), faulty("r2", reboot), faulty("r3", replacement)), "r3:replacement r2:reboot r1:reset"},
			{says(healthy()), "r3:replacement r2:reboot r1:reset"}, {waits(time.Hour), "r3:replacement r2:reboot r1:reset"}},
		"recovered clears everything, after the delay": {
			{says(faulty("r1", self), faulty("r2", reboot), faulty("r3", replacement)), "r3:replacement r2:reboot r1:self"},
			{says(recovered()), "r3:replacement r2:reboot r1:self"}, {waits(testDelay - 1), "r3:replacement r2:reboot r1:self"}, {waits(1), ""}},
		"recovered is an event": {
			{says(faulty("x", reboot)), "x:reboot"}, {says(recovered(), healthy()), "x:reboot"}, {waits(testDelay), ""}},
		"the same fault again takes the evidence away": {
			{says(faulty("x", reset)), "x:reset"}, {says(recovered()), "x:reset"}, {says(faulty("x", reset)), "x:reset"},
			{says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a graver report replaces": {
			{says(faulty("x", self)), "x:self"}, {says(faulty("x", reset)), "x:reset"}, {says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a new fault with the code of a cleared one is new": {
			{says(faulty("x", reboot)), "x:reboot"}, {says(recovered()), "x:reboot"}, {says(faulty("x", self)), "x:self"},
			{says(healthy()), "x:self"}, {waits(testDelay), ""}},
		"a reset clears up to reset": {
			{says(faulty("a", self), faulty("b", reset), faulty("c", reboot), healthy()), "c:reboot b:reset a:self"},
			{resets(true, ""), "c:reboot b:reset a:self"}, {waits(testDelay), "c:reboot"}, {waits(time.Hour), "c:reboot"}},
		"a reset waits for the next scan of the backend": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {waits(30 * time.Second), "x:reset"},
			{says(faulty("x", reset)), "x:reset"}, {says(healthy()), "x:reset"}, {waits(testDelay), ""}},
		"unknown confirms a reset": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {says(unknown()), "x:reset"}, {waits(testDelay), ""}},
		"another fault confirms a reset": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {says(faulty("y", reset)), "x:reset y:reset"}, {waits(testDelay), "y:reset"}},
		"a fault that is still reported a minute later stands": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {waits(time.Minute), "x:reset"}, {says(faulty("x", reset)), "x:reset"},
			{says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a fault after a reset that worked": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {says(healthy()), "x:reset"}, {says(faulty("x", reset)), "x:reset"},
			{says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a fault that is graver after a reset is a new report": {
			{says(faulty("x", self)), "x:self"}, {resets(true, ""), "x:self"}, {says(faulty("x", reset)), "x:reset"}, {says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a reset of a healthy device": {{says(healthy()), ""}, {resets(true, ""), ""}, {says(faulty("x", reset)), "x:reset"}, {says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},
		"a reset outlives a restart": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"},
			{func(r *rig) { r.devices["a"].Health = healthy(); restarts(r) }, "x:reset"}, {waits(testDelay), ""}},
		"after a restart every report is new": {
			{says(faulty("x", reset)), "x:reset"}, {resets(true, ""), "x:reset"}, {restarts, "x:reset"}, {says(healthy()), "x:reset"}, {waits(time.Hour), "x:reset"}},

		"evidence outlives our restart":     {{says(faulty("x", reboot), recovered()), "x:reboot"}, {says(healthy()), "x:reboot"}, {restarts, "x:reboot"}, {waits(testDelay), ""}},
		"a boot clears everything":          {{says(faulty("x", replacement), healthy()), "x:replacement"}, {boots, ""}},
		"a boot does not clear what is now": {{says(faulty("x", replacement)), "x:replacement"}, {boots, "x:replacement"}},

		"absence stops the delay":       {{says(faulty("x", self)), "x:self"}, {says(healthy()), "x:self"}, {unplugs, "x:self"}, {waits(time.Hour), "x:self"}, {plugs, "x:self"}, {waits(testDelay), ""}},
		"recovered, and then unplugged": {{says(faulty("x", reboot)), "x:reboot"}, {func(r *rig) { r.say("a", recovered()); unplugs(r) }, "x:reboot"}, {plugs, "x:reboot"}, {waits(testDelay), ""}},

		"no edits": {
			{func(r *rig) { r.devices["a"].Edits = nil; r.say("a", healthy()) }, "no-edits:self"},
			{says(recovered()), "no-edits:self"}, {waits(time.Hour), "no-edits:self"}, {says(unknown()), "no-edits:self"},
			{func(r *rig) { r.plug("a"); r.report() }, "no-edits:self"}, {waits(testDelay), ""}},
		"no edits of a faulty device are nothing new": {
			{func(r *rig) { r.devices["a"].Edits = nil; r.say("a", faulty("x", self)) }, "x:self"}, {says(healthy()), "no-edits:self x:self"}, {waits(time.Hour), "no-edits:self"}},
		"a backend's own no-edits is its own": {
			{says(faulty("no-edits", reset)), "no-edits:reset"}, {says(healthy()), "no-edits:reset"}, {waits(time.Hour), "no-edits:reset"},
			{func(r *rig) { r.devices["a"].Edits = nil; r.say("a", healthy()) }, "no-edits:reset no-edits:self"}},
		"recovered is not lost on a device without edits": {
			{says(faulty("x", reboot)), "x:reboot"}, {func(r *rig) { r.devices["a"].Edits = nil; r.say("a", recovered()) }, "x:reboot no-edits:self"},
			{waits(testDelay), "no-edits:self"}},

		"a lost backend": {
			{func(r *rig) { r.report(); r.store.Lost("mock") }, ""}, {waits(testHoldover - 1), ""}, {waits(1), "backend-lost:self"},
			{func(r *rig) { r.report() }, ""}},
		"a lost backend keeps faults, and delays stand": {
			{says(faulty("x", self)), "x:self"}, {func(r *rig) { r.say("a", healthy()); r.store.Lost("mock") }, "x:self"},
			{waits(30 * time.Second), "x:self"}, {waits(30 * time.Second), "x:self backend-lost:self"},
			{func(r *rig) { r.report() }, "x:self"}, {waits(testDelay), ""}},
		"the last report of a lost backend counts": {{func(r *rig) { r.say("a", faulty("x", reset)); r.store.Lost("mock") }, "x:reset"}},
		"a policy without delay":                   {{func(r *rig) { r.judge.SetPolicies(map[string]BackendPolicy{"mock": {}}) }, ""}, {says(faulty("x", self)), "x:self"}, {says(healthy()), ""}},
		"a removed backend":                        {{says(faulty("x", reset)), "x:reset"}, {func(r *rig) { r.store.Remove("mock") }, "x:reset"}, {nothing, "x:reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a")
			r.report()
			r.judgeNow()
			for i, s := range steps {
				s.what(r)
				got := codes(r.judgeNow(), "a")
				if got != s.want {
					t.Fatalf("after step %d the faults are %q, want %q", i+1, got, s.want)
				}
				if again := r.judge.Judge(r.store.Snapshot()); !reflect.DeepEqual(again, r.last) {
					t.Errorf("after step %d a second call returns another view", i+1)
				}
			}
		})
	}
}

// Verifies that calling Judge at View.Next is enough.
func TestNext(t *testing.T) {
	r := newRig(t, "a", "b")
	r.report()
	if v := r.judgeNow(); !v.Next.IsZero() {
		t.Errorf("next is %v while nothing is going on", v.Next)
	}
	r.say("a", faulty("x", self))
	if v := r.judgeNow(); !v.Next.IsZero() {
		t.Errorf("next is %v, but only the backend can clear the fault", v.Next)
	}
	r.say("a", healthy())
	at := r.now.Add(testDelay)
	if v := r.judgeNow(); !v.Next.Equal(at) {
		t.Errorf("next is %v, want %v", v.Next, at)
	}
	r.now = at
	if v := r.want("a", ""); !v.Next.IsZero() {
		t.Errorf("next is %v afterwards", v.Next)
	}
	r.store.Lost("mock")
	at = r.now.Add(testHoldover)
	if v := r.judgeNow(); !v.Next.Equal(at) {
		t.Errorf("next is %v, want the end of the holdover %v", v.Next, at)
	}
	r.now = at
	if v := r.want("b", "backend-lost:self"); !v.Next.IsZero() {
		t.Errorf("next is %v after the holdover", v.Next)
	}
	r.judge.SetPolicies(map[string]BackendPolicy{"mock": {Holdover: time.Hour}})
	r.want("b", "")
}

// Verifies that a device must stay healthy the longer the more often it falls, but for what its
// backend reports while the device is reset after use.
func TestFlapping(t *testing.T) {
	r := newRig(t, "a")
	used := false
	fall := func() time.Duration {
		t.Helper()
		began := r.now
		r.say("a", faulty("x", self))
		r.want("a", "x:self")
		if used {
			r.judge.Excuse(key("a"), began)
		}
		r.say("a", healthy())
		v := r.want("a", "x:self")
		delay := v.Next.Sub(r.now)
		r.now = v.Next
		r.want("a", "")
		return delay
	}
	for i, want := range []time.Duration{4, 4, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if got := fall(); got != want*time.Second {
			t.Errorf("fall %d costs %v, want %v", i+1, got, want*time.Second)
		}
	}
	r.wait(flapWindow)
	if got := fall(); got != testDelay {
		t.Errorf("after ten healthy minutes a fall costs %v", got)
	}
	used = true
	for i := range 10 {
		if got := fall(); got != testDelay {
			t.Errorf("reset %d after use costs %v", i+1, got)
		}
	}
	for delay, want := range map[time.Duration]time.Duration{0: 0, time.Hour: time.Hour, time.Minute: maxDelay} {
		if got := stretch(delay, 100); got != want {
			t.Errorf("stretch(%v) is %v, want %v", delay, got, want)
		}
	}
}

// Verifies that the number of a device's faults and their messages are bounded, with the gravest and the oldest kept, and
// that a restart changes none of them.
func TestFaultsAreBounded(t *testing.T) {
	r := newRig(t, "a")
	long := func(code string, recovery backendv1.Recovery) *backendv1.Health {
		h := faulty(code, recovery)
		h.Message = strings.Repeat("w", 1000)
		return h
	}
	for i := range 30 {
		r.say("a", long(fmt.Sprintf("s%02d", i), self))
		r.wait(time.Second)
	}
	r.say("a", long("worst", replacement))
	faults := r.judgeNow().Verdict(key("a")).Faults
	if len(faults) != maxFaults || faults[0].Code != "worst" || faults[1].Code != "s00" || len(faults[1].Message) > maxMessage {
		t.Fatalf("%d faults are kept, first %+v", len(faults), faults[:2])
	}
	r.restart()
	if diff := cmp.Diff(faults, r.judgeNow().Verdict(key("a")).Faults); diff != "" {
		t.Errorf("the faults after a restart:\n%s", diff)
	}
	// A new fault is not dropped in favour of the cleared ones.
	r.say("a", recovered())
	r.judgeNow()
	r.say("a", faulty("zz-new", self))
	if got := codes(r.judgeNow(), "a"); !strings.Contains(got, "zz-new:self") {
		t.Fatalf("faults are %s", got)
	}
	r.wait(time.Hour)
	r.want("a", "zz-new:self")
}

func TestAbsentDevicesAreBounded(t *testing.T) {
	const devices, absent = 1000, 1200
	r := newRig(t)
	r.judge.absent = absent
	for round := range 3 {
		clear(r.devices)
		for i := range devices {
			id := fmt.Sprintf("r%d-%d", round, i)
			r.plug(id).Health = faulty("x", reset)
		}
		r.report()
		r.judgeNow()
		r.wait(time.Second)
	}
	clear(r.devices)
	r.report()
	v := r.judgeNow()
	if n := len(v.faults); n != absent {
		t.Errorf("%d absent devices are remembered, want %d", n, absent)
	}
	for id, want := range map[string]bool{"r0-1": true, "r2-1": false, "r2-999": false} {
		if got := v.Verdict(key(id)).Healthy; got != want {
			t.Errorf("%s: healthy is %v", id, got)
		}
	}
	// All faulty and all listed again after a restart: nothing is dropped.
	r.open()
	r.judge.absent = absent
	if v = r.judgeNow(); len(v.faults) != absent {
		t.Errorf("after a restart %d are remembered", len(v.faults))
	}
}

// A failed reset is in the fault's message and in the log, which does not say that the device was reset.
func TestResetMessage(t *testing.T) {
	r, log := newRig(t, "a"), &strings.Builder{}
	r.judge.log = slog.New(slog.NewTextHandler(log, nil))
	r.say("a", faulty("x", reset))
	r.want("a", "x:reset")
	r.judge.ResetDone(key("a"), false, "device busy")
	if got := r.judgeNow().Verdict(key("a")).Faults[0].Message; got != "about x (reset failed: device busy)" {
		t.Errorf("message is %q", got)
	}
	if got := log.String(); strings.Contains(got, "was reset") || !strings.Contains(got, `level=WARN msg="device has not recovered by a reset"`) {
		t.Errorf("the log is %q", got)
	}
	r.open()
	if got := r.judgeNow().Verdict(key("a")).Faults[0].Message; got != "about x (reset failed: device busy)" {
		t.Errorf("message after a restart is %q", got)
	}
	r.judge.ResetDone(key("a"), true, "")
	if got := r.judgeNow().Verdict(key("a")).Faults[0].Message; got != "about x" {
		t.Errorf("message is %q", got)
	}
	r.judge.ResetDone(inventory.Key{Backend: "other", ID: "a"}, true, "") // nobody knows it
}
