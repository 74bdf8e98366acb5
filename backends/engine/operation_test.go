package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The gravest fault is reported, a board's by all its devices, and a fault that needs more
// than time leaves no evidence when it is gone.
func TestFaults(t *testing.T) {
	a, b, c := unitOf("a", 1, "a0", "a1"), unitOf("b", 2, "b0"), unitOf("c", 3, "c0")
	b.Board = "a"
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b, c}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= a1= b0= c0=")
		f.set(func() {
			f.device("a1").Vendor = faults{sdk.Fault("hot", sdk.RecoverySelf, "x"), sdk.Fault("broken", sdk.RecoveryReset, "x")}
		})
		r.wait("a0= a1=broken b0= c0=")
		f.set(func() { f.unit("a").Vendor = faults{sdk.Fault("fatal", sdk.RecoveryReboot, "x")} })
		r.wait("a0=fatal a1=fatal b0=fatal c0=")
		f.set(func() { f.unit("a").Vendor = nil })
		r.wait("a0= a1=broken b0= c0=")
		f.fail("a1", "", 0)
		r.wait("a0= a1= b0= c0=")
	}, f)
}

// A vendor's evidence of recovery is reported while there is no fault and scans return. Unknown
// health is reported as unknown.
func TestEvidence(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0", "a1")}}}
	run(t, time.Second, func(r *rig) {
		own := func(h *sdk.Health) { f.set(func() { f.device("a0").Vendor = faults{h} }) }
		r.wait("a0= a1=")
		own(sdk.Recovered())
		r.wait("a0=recovered a1=")
		own(sdk.Unknown("no answer"))
		r.wait("a0=unknown a1=")
		cleared := func(inv *backendv1.Inventory) bool {
			return slices.Equal(inv.GetDevices()[0].GetHealth().GetClearedCodes(), []string{"lost"})
		}
		own(sdk.Cleared(sdk.Healthy(), "lost"))
		r.Until("a code is cleared", cleared)
		own(sdk.Cleared(sdk.Fault("broken", sdk.RecoveryReset, "x"), "lost"))
		if inv := r.wait("a0=broken a1="); !cleared(inv) {
			t.Errorf("the fault is %v", inv.GetDevices()[0].GetHealth())
		}
		f.set(func() {
			f.device("a0").Vendor = faults{sdk.Recovered()}
			f.unit("a").Vendor = faults{sdk.Fault("hot", sdk.RecoverySelf, "x")}
		})
		r.wait("a0=hot a1=hot")
		f.set(func() { f.unit("a").Vendor = nil })
		r.wait("a0=recovered a1=")
		hold := make(chan struct{})
		f.set(func() { f.hold = hold })
		r.wait("a0=unknown a1=unknown")
		f.set(func() { f.hold = nil })
		close(hold)
		r.wait("a0=recovered a1=")
	}, f)
}

// A busy device keeps what it was; after two minutes it needs a reset.
func TestBusy(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0", "a1")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= a1=")
		f.set(func() { f.device("a0").Busy, f.device("a0").Content = true, "" })
		if inv := r.wait("a0=resetting a1="); inv.GetDevices()[0].GetAttributes()["content"].GetStringValue() != "x" {
			t.Errorf("it is %v", inv.GetDevices()[0])
		}
		began := time.Now()
		r.wait("a0=reset-failed a1=")
		if took := time.Since(began); took < busyLimit-2*time.Second || took > busyLimit {
			t.Errorf("after %v", took)
		}
		f.set(func() { f.device("a0").Busy, f.device("a0").Content = false, "x" })
		r.wait("a0= a1=")
	}, f)
}

// A reset is evidence of recovery for its device, and for others that had only shared the
// fault; the evidence ends with the next fault. One without success returns the reason.
func TestReset(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0", "a1", "a2")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= a1= a2=")
		f.set(func() { f.unit("a").Vendor = faults{sdk.Fault("latched", sdk.RecoveryReset, "x")} })
		f.fail("a2", "broken", sdk.RecoveryReboot)
		r.wait("a0=latched a1=latched a2=broken")
		if failed := r.reset("a0"); failed != "" {
			t.Error(failed)
		}
		r.wait("a0=recovered a1=recovered a2=broken")
		f.fail("a2", "", 0)
		r.wait("a0=recovered a1=recovered a2=") // it was not reset
		f.fail("a2", "broken", sdk.RecoveryReboot)
		r.wait("a0=recovered a1=recovered a2=broken")
		if failed := r.reset("a2"); failed != "" {
			t.Error(failed)
		}
		r.wait("a0=recovered a1=recovered a2=recovered")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.wait("a0=broken a1=recovered a2=recovered")
		f.fail("a0", "", 0)
		r.wait("a0= a1=recovered a2=recovered")

		f.set(func() { f.reset = func(context.Context) error { return errors.New("the kernel says EIO") } })
		r.says("a reset that fails", errors.New(r.reset("a1")), "the kernel says EIO")
		f.set(func() {
			f.reset = func(context.Context) error { f.set(func() { f.device("a1").Busy = true }); return nil }
		})
		began := time.Now()
		r.says("a device that does not come back", errors.New(r.reset("a1")), "not all of the devices answer")
		if took := time.Since(began); took > answerLimit+time.Second {
			t.Errorf("it took %v", took)
		}
		f.set(func() {
			f.reset, f.device("a1").Busy, f.device("a1").EditsErr = nil, false, errors.New("its node is missing")
		})
		r.says("one without its node", errors.New(r.reset("a1")), "its node is missing")
		r.says("one that is not there", errors.New(r.reset("x")), "there is no device x")
	}, f)
}

// A unit that cannot be read, or is not found, after its reset has the fault "resetting" until it answers, for the same
// limit as the caller of the reset waits; that it could not be read is no evidence.
func TestAwaitedAfterReset(t *testing.T) {
	for name, silent := range map[string]func(f *fake){
		"not read":  func(f *fake) { f.unit("a").Err = errors.New("no answer") },
		"not there": func(f *fake) { f.result.Units = nil },
		"not found": func(f *fake) {
			f.result.Units, f.result.Absent = nil, map[string]*sdk.Health{"a": sdk.Fault("away", sdk.RecoveryReboot, "x")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
			run(t, time.Second, func(r *rig) {
				r.wait("a0=")
				if name == "not there" { // nor in sysfs, after 30 s of which it is gone
					r.do(os.RemoveAll(r.function(f.result.Units[0])))
				}
				f.fail("a0", "broken", sdk.RecoveryReset)
				r.wait("a0=broken")
				answers := func() { f.result = Scan{Units: []Unit{unitOf("a", 1, "a0")}} }
				var after time.Duration
				f.set(func() {
					f.reset = func(context.Context) error {
						f.set(func() { silent(f); f.reset = nil })
						time.AfterFunc(after, func() { f.set(answers) })
						return nil
					}
				})
				after = answerLimit / 2
				reset := f.reset
				for _, inv := range r.During(func() { r.do(errorOf(r.reset("a0"))) }) {
					if c := codes(inv); c != "a0=broken" && c != "a0=resetting" && c != "a0=recovered" {
						t.Errorf("meanwhile %s", c)
					}
				}
				r.wait("a0=recovered")
				after = 2 * answerLimit
				f.set(func() { f.reset = reset })
				want := "not all of the devices answer"
				if name == "not there" { // it is gone at the moment at which the wait ends
					want = "the reset was done, but"
				}
				r.says("one that does not answer", errors.New(r.reset("a0")), want)
				switch name {
				case "not found":
					r.wait("a0=away")
				case "not there":
					r.wait("")
					return
				}
				r.wait("a0=recovered")
			}, f)
		})
	}
}

func errorOf(failed string) error {
	if failed == "" {
		return nil
	}
	return errors.New(failed)
}

// Nothing is reset with others that the call does not name; a group is reset at once.
func TestResetGroup(t *testing.T) {
	a, b := unitOf("a", 1, "a0"), unitOf("b", 2, "b0")
	a.Devices[0].ResetGroup, b.Devices[0].ResetGroup = "g", "g"
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b, unitOf("c", 3, "c0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= b0= c0=")
		r.says("one alone", errors.New(r.reset("a0")), "would also reset", "b0")
		if failed := r.reset("a0", "b0", "c0"); failed != "" || !slices.Equal(f.resets, []string{"[a0 b0]", "[c0]"}) {
			t.Errorf("%s; resets: %q", failed, f.resets)
		}
	}, f)
}

// A device that is being reset stays listed, whatever a scan finds of it.
func TestResetIsSeen(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0=")
		f.set(func() {
			f.reset = func(context.Context) error {
				f.set(func() { f.unit("a").Devices = nil })
				<-time.After(5 * time.Second)
				f.set(func() { *f.unit("a") = unitOf("a", 1, "a0") })
				return nil
			}
		})
		seen := false
		for _, inv := range r.During(func() { _, err := r.Reset(r.t.Context(), []string{"a0"}); r.do(err) }) {
			seen = seen || codes(inv) == "a0=resetting"
			if c := codes(inv); c != "a0=resetting" && c != "a0=recovered" {
				t.Errorf("meanwhile %s", c)
			}
		}
		if !seen {
			t.Error("the reset was not reported")
		}
	}, f)
}

// A scan that began before the end of an operation may have seen half of it, and counts for
// nothing.
func TestScanDuringOperation(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.idle(2 * time.Second)
		var err error
		for _, inv := range r.During(func() {
			err = r.operate(r.t.Context(), "a0", func(context.Context) error {
				hold := make(chan struct{})
				f.set(func() {
					f.hold, f.late = hold, true
					f.device("a0").Vendor = faults{sdk.Fault("half", sdk.RecoveryReset, "x")}
				})
				r.event()
				<-time.After(time.Second) // the scan has read it
				f.set(func() { f.hold, f.device("a0").Vendor = nil, nil })
				time.AfterFunc(100*time.Millisecond, func() { close(hold) })
				return nil
			})
		}) {
			if c := codes(inv); c != "a0=" {
				t.Errorf("meanwhile %s", c)
			}
		}
		r.do(err)
	}, f)
}

// operate runs an operation on a device as a start of a container does.
func (r *rig) operate(ctx context.Context, device string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	ctx, early := sdk.InTime(ctx)
	defer early()
	t, err := r.Find(ctx, []string{device})
	if err != nil {
		return err
	}
	leave, err := r.Enter(ctx, t.Devices[0].Board...)
	if err != nil {
		return err
	}
	if err := r.Run(ctx, t.Devices, leave, Operation{What: device + " is being programmed", Do: do}); err != nil {
		return err
	}
	seen, err := r.Scan(ctx, true, device)
	return errors.Join(err, seen.Healthy(device, false))
}

// Operations on one board run one after the other, those on several at the same time, and
// nothing is reported of the devices meanwhile.
func TestOneOperation(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0", "a1"), unitOf("b", 2, "b0"), unitOf("c", 3, "c0")}}}
	f.result.Units[2].Board = "a"
	run(t, time.Second, func(r *rig) {
		r.wait("a0= a1= b0= c0=")
		var mu sync.Mutex
		now, most := 0, 0
		began := time.Now()
		for _, inv := range r.During(func() {
			var all sync.WaitGroup
			for _, id := range []string{"a0", "a1", "b0", "c0"} {
				all.Go(func() {
					err := r.operate(r.t.Context(), id, func(context.Context) error {
						mu.Lock()
						now++
						most = max(most, now)
						mu.Unlock()
						away := faults{sdk.Fault("away", sdk.RecoverySelf, "x")}
						f.set(func() {
							if id == "b0" {
								f.unit("b").Vendor = away
							}
							f.device(id).Vendor = away
						})
						<-time.After(3 * time.Second)
						f.set(func() { f.unit("b").Vendor, f.device(id).Vendor = nil, nil })
						mu.Lock()
						now--
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Errorf("%s: %v", id, err)
					}
				})
			}
			all.Wait()
		}) {
			if c := codes(inv); c != "a0= a1= b0= c0=" {
				t.Errorf("meanwhile %s", c)
			}
		}
		if took := time.Since(began); most != 2 || took < 9*time.Second || took > 12*time.Second {
			t.Errorf("%d at a time, in %v; want 2, in 9 s", most, took)
		}
	}, f)
}

// An exclusive reset waits for the scan in progress. While it runs its driver is not scanned,
// no other unit of the driver has an operation, and no device is unknown.
func TestExclusiveReset(t *testing.T) {
	f := &fake{name: "f", exclusive: true, result: Scan{Units: []Unit{unitOf("a", 1, "a0"), unitOf("b", 2, "b0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= b0=")
		hold := make(chan struct{})
		f.set(func() { f.hold = hold })
		r.idle(2 * time.Second) // a scan is in progress
		scans := f.count()
		f.set(func() {
			f.hold = nil
			f.reset = func(context.Context) error {
				<-time.After(20 * time.Second)
				return nil
			}
		})
		time.AfterFunc(2*time.Second, func() {
			f.set(func() {
				if len(f.resets) > 0 {
					t.Error("the reset ended during a scan")
				}
			})
			close(hold)
		})
		time.AfterFunc(21*time.Second, func() {
			if got := f.count(); got != scans {
				t.Errorf("%d scans during the reset", got-scans)
			}
		})
		began := time.Now()
		time.AfterFunc(10*time.Second, func() {
			if err := r.operate(context.WithoutCancel(r.t.Context()), "b0", func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < 22*time.Second {
				t.Errorf("the other unit had an operation after %v", took)
			}
		})
		if failed := r.reset("a0"); failed != "" {
			t.Error(failed)
		}
		r.wait("a0=recovered b0=")
		r.idle(10 * time.Second)
	}, f)
}

// An operation that does not end in time is abandoned: the call is answered, the device has
// a fault, and no other operation begins on the unit, until it has ended and was scanned.
func TestAbandoned(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0", "a1")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= a1=")
		free := make(chan struct{})
		var err error
		began := time.Now()
		r.During(func() { err = r.operate(r.t.Context(), "a0", func(context.Context) error { <-free; return nil }) })
		if took := time.Since(began); took > 25*time.Second || took < 20*time.Second {
			t.Errorf("it took %v", took)
		}
		r.says("abandoned", err, "a0 is being programmed: no result before the call ended; the operation is still running")
		r.wait("a0=programming a1=")
		r.During(func() { err = r.operate(r.t.Context(), "a1", nil) })
		r.says("the other device", err, "another operation on the card a has not ended")
		if all := r.idle(time.Minute); len(all) > 0 {
			t.Errorf("meanwhile %s", codes(all[0]))
		}
		close(free)
		r.wait("a0= a1=")
		r.During(func() { err = r.operate(r.t.Context(), "a1", func(context.Context) error { return nil }) })
		r.do(err)
	}, f)
}

// An operation that ends when its context does has time to report the state of the device; a
// call that is cancelled returns at once.
func TestCancelled(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0=")
		var err error
		for _, inv := range r.During(func() {
			err = r.operate(r.t.Context(), "a0", func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(time.Second)
				return errors.New("the tool was killed; it said: waiting")
			})
		}) {
			t.Errorf("meanwhile %s", codes(inv))
		}
		r.says("it ended", err, "it said: waiting")

		ctx, cancel := context.WithCancel(r.t.Context())
		free := make(chan struct{})
		began := time.Now()
		r.During(func() {
			time.AfterFunc(time.Second, cancel)
			err = r.operate(ctx, "a0", func(context.Context) error { <-free; return nil })
		})
		if took := time.Since(began); err == nil || took > 2*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		close(free)
		r.wait("a0=")
	}, f)
}

// A vendor's memory of a device is in its targets, and Lost is called when another process may
// have changed the device.
func TestMemory(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0=")
		memory := func(want string) {
			t.Helper()
			r.During(func() {
				targets, err := r.Find(r.t.Context(), []string{"a0", "b0"})
				r.do(err)
				if got := targets.Devices[0].Memory; got != want || !slices.Equal(targets.Unknown, []string{"b0"}) {
					t.Errorf("it remembers %q, want %q; unknown: %v", got, want, targets.Unknown)
				}
			})
		}
		memory("x>x")
		f.set(func() { f.device("a0").Content = "y" })
		r.Until("y", func(inv *backendv1.Inventory) bool {
			return inv.GetDevices()[0].GetAttributes()["content"].GetStringValue() == "y"
		})
		r.idle(2 * time.Second)
		memory("y>y")
		f.set(func() { f.result.Unloaded, f.result.Units = true, nil })
		r.wait("a0=driver-away")
		memory("")
		if !slices.Contains(r.lost, "a0") {
			t.Errorf("lost: %v", r.lost)
		}
	}, f)
}
