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

// A driver that can be polled is scanned after an event, once more at the interval, every 10
// minutes, while something is missing or the kernel's events cannot be received, and when it has to
// be; otherwise it is polled, which shows faults and publishes nothing else.
func TestPolls(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Minute, func(r *rig) {
		p := &poller{fake: f}
		r.configure(func(s *Settings) { s.Drivers = []Driver{p} })
		r.wait("a0=")
		r.idle(3 * time.Minute)
		counts := func(what string, minutes, scans, polls int) {
			t.Helper()
			r.idle(time.Second)
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
		counts("at rest", 30, 3, 27)
		r.event()
		counts("after an event", 5, 1, 4)
		f.fail("a0", "broken", sdk.RecoverySelf)
		r.wait("a0=broken")
		counts("with a fault", 1, 0, 1)
		f.fail("a0", "", 0)
		r.wait("a0=")
		f.set(func() { p.refuses = true })
		counts("that does not suffice", 3, 3, 2) // one is that of the 10 minutes
		f.set(func() { p.refuses = false })
		r.kernel.Refuse(errors.New("not allowed"))
		r.kernel.Break(errors.New("broken"))
		counts("without events", 3, 3, 0)
		r.kernel.Refuse(nil)
		counts("with events again", 3, 1, 2)
		f.set(func() { f.device("a0").EditsErr = errors.New("no node") })
		r.event()
		r.wait("a0=node-missing")
		r.idle(3 * time.Minute)
		counts("while a node is missing", 2, 2, 0)
	}, f)
}

// An exclusive reset that waits for a poll in progress begins when that ends, also if the poll asks for a scan.
func TestExclusiveResetDuringPoll(t *testing.T) {
	f := &fake{name: "f", exclusive: true, result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Minute, func(r *rig) {
		r.configure(func(s *Settings) { s.Drivers = []Driver{&poller{fake: f, refuses: true}} })
		r.wait("a0=")
		hold := make(chan struct{})
		f.set(func() { f.hold = hold })
		r.idle(time.Minute + time.Second) // a poll is in progress
		f.set(func() { f.hold = nil })
		time.AfterFunc(time.Second, func() { close(hold) })
		if failed := r.reset("a0"); failed != "" {
			t.Error(failed)
		}
	}, f)
}
