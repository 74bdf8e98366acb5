package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// A check that fails is a problem until it succeeds, and one that hangs delays nothing.
func TestChecks(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0=")
		result, hold := errors.New("no directory"), make(chan struct{})
		checks := []Check{{What: "opening /x", Hung: "its file system hangs", Run: func(context.Context) error { return result }}}
		r.configure(func(s *Settings) { s.Checks = checks })
		r.problem("no directory")
		if all := r.idle(10 * time.Second); len(all) > 0 {
			t.Errorf("published again without a change: %q", all[0].GetProblems())
		}
		r.configure(func(s *Settings) {
			s.Checks = []Check{{What: "opening /x", Hung: "its file system hangs", Run: func(context.Context) error { <-hold; return nil }}}
		})
		r.problem("opening /x began at")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.wait("a0=broken")
		close(hold)
		r.problem("")
		r.configure(func(s *Settings) { s.Checks = checks })
		r.problem("no directory")
		r.configure(func(s *Settings) { s.Checks = nil })
		r.problem("")
	}, f)
}

// A check may have an interval of its own, and pass what it finds to the loop.
func TestCheckEvery(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		var runs atomic.Int32
		r.configure(func(s *Settings) {
			s.Checks = []Check{{What: "reading /x", Every: time.Second, Run: func(ctx context.Context) error {
				runs.Add(1)
				return r.Do(ctx, func(known Known) {
					known.Device("a0").Unit.Memory = faults{sdk.Fault("reported", sdk.RecoverySelf, "x")}
				})
			}}}
		})
		r.wait("a0=reported")
		r.idle(10 * time.Second)
		if n := runs.Load(); n < 10 || n > 12 {
			t.Errorf("%d runs", n)
		}
	}, f)
}

// A monitor runs while its settings apply. What it passes to the loop is judged at once.
func TestMonitor(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.idle(2 * time.Second)
		events, ended := make(chan string), make(chan bool)
		monitor := func(ctx context.Context) {
			for {
				select {
				case code := <-events:
					r.do(r.Do(ctx, func(known Known) {
						known.Units()[0].Memory = faults{sdk.Fault(code, sdk.RecoverySelf, "x")}
						known.Scan()
					}))
				case <-ctx.Done():
					close(ended)
					return
				}
			}
		}
		r.configure(func(s *Settings) { s.Monitor = monitor })
		r.idle(2 * time.Second)
		before := f.count()
		r.During(func() { events <- "hot" })
		r.wait("a0=hot")
		if r.idle(2 * time.Second); f.count() != before+1 {
			t.Errorf("%d scans", f.count()-before)
		}
		r.configure(func(s *Settings) { s.Monitor = nil })
		<-ended
	}, f)
}

// A uevent may report more than that something changed.
func TestUevent(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.kernel.Send(uevent.Change, "/devices/x", "fake", map[string]string{"FAULT": "wedged"})
		r.wait("a0=wedged")
	}, f)
}
