package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// poller is a fake that is polled.
type poller struct {
	*fake
	polls int
	// refuses: it has to be scanned.
	refuses bool
}

func (p *poller) Poll(last Scan) (Scan, bool) {
	now := p.Scan(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scans--
	p.polls++
	last.Units = now.Units
	return last, !p.refuses
}

// The health of a driver that can be polled is read between scans, also while something is missing and
// while the kernel's events cannot be received, and nothing else is published. It is scanned after an event, once
// more at the interval, every 10 minutes, when it asks for that, and when a poll does not suffice.
func TestPolls(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Minute, func(r *rig) {
		p := &poller{fake: f}
		r.configure(func(s *Settings) { s.Drivers, s.Polling = []Driver{p}, time.Second })
		r.wait("a0=")
		r.idle(3 * time.Minute)
		counts := func(what string, minutes, scans, polls int) {
			t.Helper()
			r.idle(500 * time.Millisecond)
			var s, n int
			f.set(func() { s, n = f.scans, p.polls })
			published := 0
			for range minutes {
				published += len(r.idle(time.Minute))
			}
			f.set(func() { s, n = f.scans-s, p.polls-n })
			if s != scans || n != polls || published > 0 {
				t.Errorf("%s: %d scans and %d polls, want %d and %d; %d inventories", what, s, n, scans, polls, published)
			}
		}
		counts("at rest", 30, 3, 1797)
		r.event()
		counts("after an event", 5, 1, 299)
		fails := func(what, code string) {
			t.Helper()
			began := time.Now()
			f.fail("a0", code, sdk.RecoverySelf)
			r.wait("a0=" + code)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: the fault %q was reported after %v", what, code, took)
			}
		}
		fails("at rest", "broken")
		counts("with a fault", 1, 0, 60)
		fails("at rest", "")
		f.set(func() { f.result.Next = 30 * time.Second })
		r.event()
		counts("that asks for scans", 2, 4, 116)
		f.set(func() { f.result.Next, f.result.Unpolled = 0, true })
		r.event()
		r.idle(2 * time.Minute)
		counts("with nothing to poll", 5, 0, 0)
		f.set(func() { f.result.Unpolled = false })
		r.event()
		r.idle(2 * time.Minute)
		f.set(func() { p.refuses = true })
		counts("that does not suffice", 1, 60, 60)
		f.set(func() { p.refuses = false })
		r.idle(2 * time.Minute)
		r.kernel.Refuse(errors.New("not allowed"))
		r.kernel.Break(errors.New("broken"))
		counts("without events", 3, 3, 177)
		fails("without events", "broken")
		fails("without events", "")
		r.kernel.Refuse(nil)
		counts("with events again", 3, 1, 179)
		f.set(func() { f.device("a0").EditsErr = errors.New("no node") })
		r.event()
		r.wait("a0=node-missing")
		r.idle(3 * time.Minute)
		counts("while a node is missing", 2, 2, 118)
		f.set(func() { f.result.Units = append(f.result.Units, unitOf("b", 2, "b0")) })
		r.event()
		r.wait("a0=node-missing b0=")
		f.fail("b0", "broken", sdk.RecoverySelf)
		began := time.Now()
		r.wait("a0=node-missing b0=broken")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the fault of one device was reported %v late while the node of another is missing", took)
		}
	}, f)
}

// slow is a poller whose polls take a time.
type slow struct {
	*poller
	takes time.Duration
}

func (s *slow) Poll(last Scan) (Scan, bool) {
	<-time.After(s.takes)
	return s.poller.Poll(last)
}

// Polls take at most 3% of the time, unless the interval would pass without one.
func TestSlowPolls(t *testing.T) {
	for takes, polls := range map[time.Duration]int{
		time.Millisecond: 59, 100 * time.Millisecond: 19, 4 * time.Second: 1, // in a minute
	} {
		f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
		run(t, 30*time.Second, func(r *rig) {
			p := &slow{&poller{fake: f}, takes}
			r.configure(func(s *Settings) { s.Drivers, s.Polling = []Driver{p}, time.Second })
			r.wait("a0=")
			r.idle(2 * time.Minute)
			var before, after int
			f.set(func() { before = p.polls })
			r.idle(time.Minute)
			f.set(func() { after = p.polls })
			if n := after - before; n < polls-1 || n > polls+1 {
				t.Errorf("polls of %v: %d in a minute, want %d", takes, n, polls)
			}
		}, f)
	}
}

// A unit that a scan did not find, as its driver is not loaded, is not forgotten by the polls after it.
func TestPollsForgetNoUnit(t *testing.T) {
	a, b := unitOf("a", 1, "a0"), unitOf("b", 2, "b0")
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b}}}
	run(t, time.Minute, func(r *rig) {
		r.configure(func(s *Settings) { s.Drivers, s.Polling = []Driver{&poller{fake: f}}, time.Second })
		r.wait("a0= b0=")
		r.plug(b, "")
		f.set(func() { f.result.Units = f.result.Units[:1] })
		r.event()
		r.wait("a0= b0=driver-unbound")
		for _, inv := range r.idle(4 * time.Minute) {
			t.Errorf("published again: %s", codes(inv))
		}
		f.fail("a0", "broken", sdk.RecoverySelf)
		r.wait("a0=broken b0=driver-unbound")
	}, f)
}

// An exclusive reset that waits for a poll in progress begins when that ends, also if the poll asks for a scan.
func TestExclusiveResetDuringPoll(t *testing.T) {
	f := &fake{name: "f", exclusive: true, result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Minute, func(r *rig) {
		r.configure(func(s *Settings) { s.Drivers, s.Polling = []Driver{&poller{fake: f, refuses: true}}, time.Minute })
		r.wait("a0=")
		hold := make(chan struct{})
		f.set(func() { f.hold = hold })
		r.idle(time.Minute + time.Second) // a poll or a scan is in progress
		f.set(func() { f.hold = nil })
		time.AfterFunc(time.Second, func() { close(hold) })
		if failed := r.reset("a0"); failed != "" {
			t.Error(failed)
		}
	}, f)
}
