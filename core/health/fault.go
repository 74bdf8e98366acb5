package health

import (
	"cmp"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
)

const (
	// CodeNoEdits is the fault of a device without container edits.
	CodeNoEdits = "no-edits"
	// CodeBackendLost is the fault of all devices of a backend that was lost for
	// longer than its holdover.
	CodeBackendLost = "backend-lost"
	// CodeUnread is the fault of a device that the backend could not look at.
	CodeUnread = "unread"

	// maxFaults bounds the faults of a device: the gravest stay. maxMessage bounds, in bytes, a fault's message and
	// the note of a failed reset. So the faults of a backend with [inventory.MaxDevices] devices, each with every fault
	// it may have, take 20 MiB at most.
	maxFaults  = 8
	maxMessage = 256
	// resetGrace is how long after a reset a report may have been measured before it.
	resetGrace = time.Minute
	// flapWindow is how long a device must be healthy for its falls to be forgotten.
	flapWindow = 10 * time.Minute
	// freeFalls is how many falls within the window do not lengthen the delay.
	freeFalls = 3
	maxDelay  = 5 * time.Minute
)

// fault is a [Fault] of the device's own, with the progress of its recovery.
type fault struct {
	code     string
	message  string
	note     string // message of the latest failed reset, or ""
	recovery inventory.Recovery
	reach    inventory.Reach
	since    time.Time
	// reachSince is since when the device has had a fault of this reach or a graver one.
	reachSince time.Time
	// clearedAt is when there was evidence that it is cleared; zero while it stands.
	clearedAt time.Time
	// resetAt is when a reset worked whose effect the backend has yet to confirm.
	resetAt time.Time
	// derived faults are found here, not reported by the backend, which may use the same code.
	derived bool
}

// cleared reports whether the fault only waits for its delay.
func (f *fault) cleared() bool { return !f.clearedAt.IsZero() }

func (f *fault) publish() Fault {
	out := Fault{Code: f.code, Message: f.message, Recovery: f.recovery, Reach: f.reach, Since: f.since, ReachSince: f.reachSince}
	if f.note != "" {
		out.Message += " (reset failed: " + f.note + ")"
	}
	return out
}

// record is what is known of one device: its faults, and how often it fell. The
// methods report whether anything changed that the state file stores.
type record struct {
	faults []*fault // gravest first, then oldest
	// listed devices were in the last inventory of a backend that reports.
	listed bool
	// pass is the number of the last call of Judge that found the device listed.
	pass uint64
	seen time.Time
	// falls counts changes from healthy to unhealthy in the current flap window.
	falls        int
	healthySince time.Time
}

func (r *record) find(code string, derived bool) *fault {
	for _, f := range r.faults {
		if f.code == code && f.derived == derived {
			return f
		}
	}
	return nil
}

// report takes a report of the backend. It may be the same one again.
func (r *record) report(h inventory.Health, now time.Time) bool {
	changed := false
	if h.State == inventory.StateUnhealthy {
		changed = r.add(fault{code: h.Code, message: text.Cut(h.Message, maxMessage), recovery: h.Recovery, reach: h.Reach, since: now}, now)
	}
	for _, f := range r.faults {
		switch {
		case f.cleared() || f.derived:
		case h.State == inventory.StateUnhealthy && h.Code == f.code:
		case !f.resetAt.IsZero(),
			h.Cleared.Has(f.code),
			h.State == inventory.StateHealthy && (h.Recovered || f.recovery == inventory.RecoverySelf):
			f.clear(now)
			changed = true
		}
	}
	return changed
}

// checkEdits adds or clears the fault of a device without edits.
func (r *record) checkEdits(d *inventory.Device, now time.Time) bool {
	if !d.Edits.Empty() || d.Potential {
		f := r.find(CodeNoEdits, true)
		if f == nil || f.cleared() {
			return false
		}
		f.clear(now)
		return true
	}
	if d.Health.State == inventory.StateUnhealthy {
		return false // a device off the bus has no nodes; that is the same fault
	}
	return r.add(fault{
		code: CodeNoEdits, derived: true, recovery: inventory.RecoverySelf, since: now,
		message: "the backend reports no container edits for the device; is the driver loaded?",
	}, now)
}

// add adds a fault, or renews the one with that code.
func (r *record) add(n fault, now time.Time) bool {
	f := r.find(n.code, n.derived)
	if f != nil && !f.cleared() {
		return r.renew(f, n, now)
	}
	if !slices.ContainsFunc(r.faults, func(f *fault) bool { return !f.cleared() }) {
		if len(r.faults) == 0 && !r.healthySince.IsZero() && now.Sub(r.healthySince) >= flapWindow {
			r.falls = 0
		}
		r.falls++
	}
	n.reachSince = r.reachedSince(n.reach, now)
	if f == nil {
		f = &fault{}
		r.faults = append(r.faults, f)
	}
	*f = n
	r.sort()
	// If there are too many, a cleared one goes first, then the lightest and newest, which
	// may be the new one itself: then nothing has changed.
	if len(r.faults) > maxFaults {
		drop := len(r.faults) - 1
		for i, f := range slices.Backward(r.faults) {
			if f.cleared() {
				drop = i
				break
			}
		}
		r.faults = slices.Delete(r.faults, drop, drop+1)
	}
	return r.find(n.code, n.derived) != nil
}

// reachedSince returns since when the device has had a fault of this reach or a graver one; now if it has none.
func (r *record) reachedSince(reach inventory.Reach, now time.Time) time.Time {
	since := now
	for _, f := range r.faults {
		if f.reach.Graver(reach) == f.reach && f.reachSince.Before(since) {
			since = f.reachSince
		}
	}
	return since
}

// renew takes another report of a standing fault.
func (r *record) renew(f *fault, n fault, now time.Time) bool {
	changed := false
	if !f.resetAt.IsZero() {
		if n.recovery <= f.recovery && now.Sub(f.resetAt) < resetGrace {
			return false // probably measured before the reset
		}
		f.resetAt, changed = time.Time{}, true
	}
	if reach := f.reach.Graver(n.reach); reach != f.reach {
		f.reachSince = r.reachedSince(reach, now)
		f.reach, changed = reach, true
	}
	switch {
	case n.recovery > f.recovery:
		f.recovery, f.message = n.recovery, n.message
		r.sort()
		return true
	case n.recovery == f.recovery && n.message != f.message:
		// Another message alone is not worth a write; the next write stores it.
		f.message = n.message
	}
	return changed
}

// clear records evidence that the fault is cleared.
func (f *fault) clear(now time.Time) { f.clearedAt, f.resetAt = now, time.Time{} }

// resetDone takes the result of a reset.
func (r *record) resetDone(recovered bool, message string, now time.Time) bool {
	changed := false
	for _, f := range r.faults {
		switch {
		case f.recovery > inventory.RecoveryReset || f.derived || f.cleared():
		case recovered:
			f.resetAt, f.note = now, ""
			changed = true
		case f.note != message:
			f.note = message
			changed = true
		}
	}
	return changed
}

// restartDelays is for a device that was not listed and so not monitored.
func (r *record) restartDelays(now time.Time) {
	for _, f := range r.faults {
		if f.cleared() {
			f.clearedAt = now
		}
	}
}

// expire removes the cleared faults whose delay has passed. next is when the next delay ends,
// or zero.
func (r *record) expire(delay time.Duration, now time.Time) (gone []*fault, next time.Time) {
	delay = stretch(delay, r.falls)
	left := r.faults[:0]
	for _, f := range r.faults {
		end := f.clearedAt.Add(delay)
		switch {
		case !f.cleared():
		case end.After(now):
			next = earlier(next, end)
		default:
			gone = append(gone, f)
			continue
		}
		left = append(left, f)
	}
	clear(r.faults[len(left):])
	r.faults = left
	if len(gone) > 0 {
		r.healthySince = now
	}
	return gone, next
}

// stretch returns the delay of a device that fell that often.
func stretch(delay time.Duration, falls int) time.Duration {
	for range min(falls-freeFalls, 32) {
		if delay >= maxDelay {
			break
		}
		delay = min(2*delay, maxDelay)
	}
	return delay
}

func (r *record) sort() {
	slices.SortStableFunc(r.faults, func(a, b *fault) int {
		return cmp.Or(cmp.Compare(b.recovery, a.recovery), a.since.Compare(b.since), cmp.Compare(a.code, b.code))
	})
}

// own returns the faults for verdicts.
func (r *record) own() []Fault {
	var own []Fault
	for _, f := range r.faults {
		own = append(own, f.publish())
	}
	return own
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
