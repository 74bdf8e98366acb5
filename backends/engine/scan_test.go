package engine

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// An event of the kernel asks for one scan: units are listed when they are plugged in, and
// forgotten when they are unplugged.
func TestHotPlug(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.idle(2 * time.Second)
		b := unitOf("b", 2, "b0", "b1")
		r.plug(b, "fake")
		f.set(func() { f.result.Units = append(f.result.Units, b) })
		before, began := f.count(), time.Now()
		for range 100 {
			r.event()
		}
		r.wait("a0= b0= b1=")
		if took := time.Since(began); took > time.Second || f.count() != before+1 {
			t.Errorf("%v and %d scans", took, f.count()-before)
		}
		r.do(os.RemoveAll(r.function(b)))
		f.set(func() { f.result.Units = f.result.Units[:1] })
		r.event()
		r.wait("a0=")
		before = f.count()
		r.During(func() {
			for range 1000 {
				r.event()
				<-time.After(10 * time.Millisecond)
			}
		})
		if got := f.count() - before; got < 9 || got > 12 {
			t.Errorf("%d scans for events during 10 s, want one a second", got)
		}
	}, f)
}

// A unit that is not found, but not unplugged, keeps its place with the fault that fits, and
// comes back with evidence of recovery if its driver had released it.
func TestAbsent(t *testing.T) {
	a, b := unitOf("a", 1, "a0"), unitOf("b", 2, "b0")
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= b0=")
		half := b
		half.Devices = nil
		lost := func(device string) []Problem {
			return []Problem{{Device: device, Lost: true, Err: errors.New("cut off")}}
		}
		away := map[string]*sdk.Health{"b": sdk.Fault("away", sdk.RecoverySelf, "x")}
		for _, c := range []struct {
			code    string
			change  func()
			result  Scan
			recover bool
		}{
			{"b0=driver-unbound", func() { r.plug(b, "") }, Scan{Units: []Unit{a}}, true},
			{"b0=driver-unbound", func() { r.plug(b, "vfio-pci") }, Scan{Units: []Unit{a}}, true},
			{"b0=card-incomplete", func() {}, Scan{Units: []Unit{a}, Problems: lost("0000:02:00.0")}, false},
			{"b0=card-incomplete", func() {}, Scan{Units: []Unit{a}}, false},
			{"b0=region-incomplete", func() {}, Scan{Units: []Unit{a, half}, Problems: lost("0000:02:00.0 port.1")}, false},
			{"b0=driver-away", func() {}, Scan{Unloaded: true}, true},
			{"b0=away", func() { r.do(os.RemoveAll(r.function(b))) }, Scan{Units: []Unit{a}, Absent: away}, false}, // never in sysfs
			{"b0=away", func() {}, Scan{Units: []Unit{a}, Absent: away, Unloaded: true}, true},
			{"b0=card-gone", func() { r.do(os.Remove(r.function(b) + "/vendor")) }, Scan{Units: []Unit{a}}, false},
		} {
			c.change()
			f.set(func() { f.result = c.result })
			first := "a0= "
			if c.result.Unloaded && len(c.result.Units) == 0 {
				first = "a0=driver-away "
			}
			if inv := r.wait(first + c.code); inv.GetDevices()[1].GetAttributes()["content"].GetStringValue() != "x" {
				t.Errorf("%s: it is %v", c.code, inv.GetDevices()[1])
			}
			r.plug(b, "fake")
			f.set(func() { f.result = Scan{Units: []Unit{a, b}} })
			switch {
			case c.result.Unloaded && len(c.result.Units) == 0:
				r.wait("a0=recovered b0=recovered")
				r.lost = nil
				f.fail("a0", "x", sdk.RecoveryReset)
				f.fail("b0", "x", sdk.RecoveryReset)
				r.wait("a0=x b0=x")
				f.fail("a0", "", 0)
				f.fail("b0", "", 0)
				r.wait("a0= b0=")
			case c.recover:
				r.wait("a0= b0=recovered")
			default:
				r.wait("a0= b0=")
			}
		}
		// Another unit in the slot: the old one was replaced.
		c := unitOf("c", 2, "c0")
		f.set(func() { f.result = Scan{Units: []Unit{a, c}} })
		r.wait("a0= c0=")
	}, f)
}

// A scan that lacks something, or has a new problem, is accepted when the next one is the same;
// one that saw a change in progress never is, and reported after 16.
func TestUnconfirmed(t *testing.T) {
	a, b := unitOf("a", 1, "a0"), unitOf("b", 2, "b0")
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0= b0=")
		r.idle(2 * time.Second)
		empty := unitOf("b", 2, "b0")
		empty.Devices[0].Content = ""
		whole := f.result
		for name, result := range map[string]Scan{
			"no unit":    {Units: []Unit{a}},
			"no device":  {Units: []Unit{a, unitOf("b", 2)}},
			"no content": {Units: []Unit{a, empty}},
			"unstable":   {Units: []Unit{a}, Unstable: true},
			"a problem":  {Units: []Unit{a, b}, Problems: []Problem{{Device: "x", Lost: true, Err: errors.New("y")}}},
		} {
			f.set(func() { f.result = result })
			before := f.count()
			r.event()
			all := r.During(func() {
				for f.count() == before {
					<-time.After(10 * time.Millisecond)
				}
				f.set(func() { f.result = whole })
				<-time.After(2 * time.Second)
			})
			if len(all) > 0 {
				t.Errorf("%s in one scan: %v", name, sdktest.Summary(all[0]))
			}
		}
		f.set(func() { f.result = Scan{Units: []Unit{a}, Unstable: true} })
		before := f.count()
		r.event()
		r.problem("change during each scan")
		if got := f.count() - before; got != maxUnstable || codes(r.Last) != "a0= b0=" {
			t.Errorf("after %d scans: %s", got, codes(r.Last))
		}
		if r.idle(time.Minute); f.count() != before+maxUnstable {
			t.Errorf("%d more scans before the interval", f.count()-before-maxUnstable)
		}
		f.set(func() { f.result = whole })
		r.event()
		r.problem("")
	}, f)
}

// While something is missing, scans are more frequent at first.
func TestBackOff(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	f.result.Units[0].Devices[0].EditsErr = errors.New("device node /dev/a0 is missing")
	run(t, time.Minute, func(r *rig) {
		r.wait("a0=node-missing")
		if r.idle(30 * time.Second); f.count() != 5 { // at 0, 1, 3, 7 and 15 s
			t.Errorf("%d scans", f.count())
		}
		r.event()
		if r.idle(2 * time.Second); f.count() != 7 { // at once, and 1 s later
			t.Errorf("%d scans after an event", f.count())
		}
		f.set(func() { f.device("a0").EditsErr = nil })
		r.wait("a0=")
	}, f)
}

// After a scan that could read nothing, the devices are neither gone nor as they were, but unread; it is made again soon.
func TestFailedScan(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.idle(2 * time.Second)
		whole := f.result
		f.set(func() { f.result = Scan{Err: errors.New("EIO")} })
		before := f.count()
		r.event()
		r.problem("could not be read")
		r.During(func() {
			seen, err := r.Scan(r.t.Context(), false, "a0")
			r.do(err)
			r.says("a healthy device that could not be read", seen.Healthy("a0", false), "EIO")
		})
		if r.idle(30 * time.Second); codes(r.Last)+unreadIn(r.Last) != "a0:EIO *:EIO" || f.count() < before+5 {
			t.Errorf("%s %s after %d scans", codes(r.Last), unreadIn(r.Last), f.count()-before)
		}
		f.set(func() { f.result = whole })
		r.wait("a0=")
		r.problem("")
	}, f)
}

// A problem that is not one device's is shown as it is. Of equal faults a missing device node
// is the last: what the vendor finds explains it.
func TestNoDevice(t *testing.T) {
	a := unitOf("a", 1, "a0")
	a.Devices[0].EditsErr = errors.New("device node /dev/a0 is missing")
	f := &fake{name: "f", result: Scan{Units: []Unit{a}, Problems: []Problem{{Err: errors.New("2 cards have no driver")}}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0=node-missing")
		if p := r.Last.GetProblems(); len(p) != 1 || p[0] != "2 cards have no driver" {
			t.Errorf("problems %q", p)
		}
		f.fail("a0", "half", sdk.RecoverySelf)
		r.wait("a0=half")
	}, f)
}

// A driver can ask to be scanned again before the interval.
func TestNextScan(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}, Next: 10 * time.Second}}
	run(t, time.Minute, func(r *rig) {
		r.wait("a0=")
		if r.idle(35 * time.Second); f.count() != 4 {
			t.Errorf("%d scans in 35 s, want one every 10 s", f.count())
		}
		f.set(func() { f.result.Next = 2 * time.Minute })
		if r.idle(3 * time.Minute); f.count() != 7 {
			t.Errorf("%d scans, want one every minute", f.count())
		}
	}, f)
}

// An event that must not wait has a scan begin at once.
func TestScanNow(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		began := time.Now()
		r.do(r.Do(r.t.Context(), Known.ScanNow))
		for f.count() == 1 {
			r.idle(time.Millisecond)
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("a scan after %v", took)
		}
	}, f)
}

// A scan that hangs makes the health of its driver's devices unknown, and affects no other
// driver.
func TestHungScan(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	g := &fake{name: "g", result: Scan{Units: []Unit{unitOf("b", 2, "b0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= b0=")
		hold := make(chan struct{})
		f.set(func() { f.hold = hold })
		r.wait("a0=unknown b0=")
		if len(r.Last.GetProblems()) != 1 { // of the driver, not one for each unit
			t.Errorf("problems %q", r.Last.GetProblems())
		}
		before := f.count()
		g.fail("b0", "broken", sdk.RecoveryReset)
		r.wait("a0=unknown b0=broken")
		if r.idle(time.Minute); f.count() != before {
			t.Error("another scan began beside the one that hangs")
		}
		f.set(func() { f.hold = nil })
		close(hold)
		r.wait("a0= b0=broken")
		r.problem("")
		// The units of a driver that settings leave out are forgotten.
		r.configure(func(s *Settings) { s.Drivers = s.Drivers[:1] })
		r.wait("a0=")
	}, f, g)
}

// A scan that was made with older settings is made again.
func TestSettingsDuringScan(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.idle(2 * time.Second)
		hold := make(chan struct{})
		before := f.count()
		f.set(func() { f.hold, f.late = hold, true })
		r.event()
		r.idle(time.Second) // the scan has read
		f.set(func() {
			f.hold = nil
			f.result.Units = append(f.result.Units, unitOf("b", 2, "b0"))
		})
		r.configure(func(s *Settings) { s.Interval = 30 * time.Minute })
		close(hold)
		r.wait("a0= b0=")
		if got := f.count() - before; got != 2 {
			t.Errorf("%d scans, want 2", got)
		}
	}, f)
}

// Of two units or devices with one ID the first is listed; the other is a problem.
func TestDuplicates(t *testing.T) {
	a := unitOf("a", 1, "a0")
	f := &fake{name: "f", result: Scan{Units: []Unit{a}}}
	g := &fake{name: "g", result: Scan{Units: []Unit{a, unitOf("b", 2, "a0", "b1", "b1")}}}
	run(t, time.Second, func(r *rig) {
		inv := r.Until("three problems", func(inv *backendv1.Inventory) bool {
			return codes(inv) == "a0= b1=" && len(inv.GetProblems()) == 3
		})
		if got := inv.GetDevices()[0].GetAttributes()["driver"].GetStringValue(); got != "f" {
			t.Errorf("a0 is of the driver %s", got)
		}
	}, f, g)
}
