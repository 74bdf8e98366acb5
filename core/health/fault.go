package health

import (
	"cmp"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

const (
	// CodeNoEdits is the fault of a device that brings nothing into a container.
	CodeNoEdits = "no-edits"
	// CodeBackendLost is the fault of all devices of a backend that was lost for
	// longer than its holdover.
	CodeBackendLost = "backend-lost"

	maxFaults = 16
	maxNote   = 1024
	// resetGrace is how long after a reset a report may be from before it.
	resetGrace = time.Minute
	// flapWindow is how long a device must be sound for its falls to be forgotten.
	flapWindow = 10 * time.Minute
	// freeFalls is how many falls within the window cost no longer delay.
	freeFalls = 3
	maxDelay  = 5 * time.Minute
)

// fault is a [Fault] of the device's own and how far it is on its way out.
type fault struct {
	code     string
	message  string
	note     string // what the latest reset that failed said, or ""
	recovery inventory.Recovery
	reach    inventory.Reach
	since    time.Time
	// over is when evidence came that it is over; zero while it stands.
	over time.Time
	// reset is when a reset worked whose effect the backend has yet to confirm.
	reset time.Time
	// derived: found here, not said by the backend, which may use the same code.
	derived bool
}

func (f *fault) publish() Fault {
	out := Fault{Code: f.code, Message: f.message, Recovery: f.recovery, Reach: f.reach, Since: f.since}
	if f.note != "" {
		out.Message += " (reset failed: " + f.note + ")"
	}
	return out
}

// record is what is known of one device: its faults, and how often it fell. The
// methods report whether anything changed that belongs in the state file.
type record struct {
	faults []*fault // gravest first, then oldest
	// listed: the device was in the last inventory of a backend that reports.
	listed bool
	// pass is the number of the pass over a snapshot that last saw the device.
	pass uint64
	seen time.Time
	// falls counts changes from sound to faulted in the current flap window, and
	// sound is when the last fault went.
	falls int
	sound time.Time
	// tight: the faults of its backend are over their budget; see Judge.keepBudget.
	tight bool
	// published is faults for verdicts; nil when it must be made again.
	published []Fault
}

func (r *record) find(code string, derived bool) *fault {
	for _, f := range r.faults {
		if f.code == code && f.derived == derived {
			return f
		}
	}
	return nil
}

// say takes a statement of the backend. It may be the same one again.
func (r *record) say(h inventory.Health, now time.Time) bool {
	changed := false
	h = r.fitting(h)
	if h.State == inventory.StateUnhealthy {
		changed = r.add(fault{code: h.Code, message: h.Message, recovery: h.Recovery, reach: h.Reach, since: now}, now)
	}
	for _, f := range r.faults {
		switch {
		case !f.over.IsZero() || f.derived:
		case h.State == inventory.StateUnhealthy && h.Code == f.code:
		case !f.reset.IsZero(),
			h.Cleared.Has(f.code),
			h.State == inventory.StateHealthy && (h.Recovered || f.recovery == inventory.RecoverySelf):
			f.end(now)
			changed = true
		}
	}
	return changed
}

// edits takes note of whether the device brings anything into a container.
func (r *record) edits(d *inventory.Device, now time.Time) bool {
	if !d.Edits.Empty() || d.Potential {
		f := r.find(CodeNoEdits, true)
		if f == nil || !f.over.IsZero() {
			return false
		}
		f.end(now)
		return true
	}
	if d.Health.State == inventory.StateUnhealthy {
		return false // a device off the bus has no nodes: nothing new
	}
	return r.add(fault{
		code: CodeNoEdits, derived: true, recovery: inventory.RecoverySelf, since: now,
		message: "the backend names nothing that a container would get; is the driver loaded?",
	}, now)
}

// add adds a fault, or renews the one with that code.
func (r *record) add(n fault, now time.Time) bool {
	f := r.find(n.code, n.derived)
	if f != nil && f.over.IsZero() {
		return r.renew(f, n, now)
	}
	if !slices.ContainsFunc(r.faults, func(f *fault) bool { return f.over.IsZero() }) {
		if len(r.faults) == 0 && !r.sound.IsZero() && now.Sub(r.sound) >= flapWindow {
			r.falls = 0
		}
		r.falls++
	}
	if f == nil {
		f = &fault{}
		r.faults = append(r.faults, f)
	}
	*f = n
	r.sort()
	// If there are too many, one that is over goes first, then the lightest and
	// newest, which may be the new one itself: then nothing has changed.
	if len(r.faults) > r.most() {
		drop := len(r.faults) - 1
		for i, f := range slices.Backward(r.faults) {
			if !f.over.IsZero() {
				drop = i
				break
			}
		}
		r.faults = slices.Delete(r.faults, drop, drop+1)
	}
	return r.find(n.code, n.derived) != nil
}

// most is the largest number of faults that are stored of the device.
func (r *record) most() int {
	if r.tight {
		return 1
	}
	return maxFaults
}

// renew takes another statement of a standing fault.
func (r *record) renew(f *fault, n fault, now time.Time) bool {
	changed := false
	if !f.reset.IsZero() {
		if n.recovery <= f.recovery && now.Sub(f.reset) < resetGrace {
			return false // likely from before the reset
		}
		f.reset, changed = time.Time{}, true
	}
	if reach := f.reach.Graver(n.reach); reach != f.reach {
		f.reach, r.published, changed = reach, nil, true
	}
	switch {
	case n.recovery > f.recovery:
		f.recovery, f.message = n.recovery, n.message
		r.sort()
		return true
	case n.recovery == f.recovery && n.message != f.message:
		// Words alone are not worth a write; the next one takes them along.
		f.message = n.message
		r.published = nil
	}
	return changed
}

// end says that there is evidence that the fault is over.
func (f *fault) end(now time.Time) { f.over, f.reset = now, time.Time{} }

// resetDone takes the result of a reset.
func (r *record) resetDone(recovered bool, message string, now time.Time) bool {
	changed := false
	for _, f := range r.faults {
		switch {
		case f.recovery > inventory.RecoveryReset || f.derived || !f.over.IsZero():
		case recovered:
			f.reset, f.note = now, ""
			changed = true
		case f.note != message:
			f.note = message
			changed = true
		}
	}
	if changed {
		r.published = nil
	}
	return changed
}

// back restarts the delays of a device that was not listed: nobody watched it.
func (r *record) back(now time.Time) {
	for _, f := range r.faults {
		if !f.over.IsZero() {
			f.over = now
		}
	}
}

// expire removes the faults whose delay has passed. next is when the next one
// is due, or zero.
func (r *record) expire(delay time.Duration, now time.Time) (gone []*fault, next time.Time) {
	delay = stretch(delay, r.falls)
	kept := r.faults[:0]
	for _, f := range r.faults {
		due := f.over.Add(delay)
		switch {
		case f.over.IsZero():
		case due.After(now):
			next = earlier(next, due)
		default:
			gone = append(gone, f)
			continue
		}
		kept = append(kept, f)
	}
	clear(r.faults[len(kept):])
	r.faults = kept
	if len(gone) > 0 {
		r.published = nil
		r.sound = now
	}
	return gone, next
}

// stretch is the delay of a device that fell so often.
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
	r.published = nil
	slices.SortStableFunc(r.faults, func(a, b *fault) int {
		return cmp.Or(cmp.Compare(b.recovery, a.recovery), a.since.Compare(b.since), cmp.Compare(a.code, b.code))
	})
}

// own are the faults for verdicts. The slice is shared and never changes.
func (r *record) own() []Fault {
	if r.published == nil && len(r.faults) > 0 {
		r.published = make([]Fault, len(r.faults))
		for i, f := range r.faults {
			r.published[i] = f.publish()
		}
	}
	return r.published
}

// earlier is the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
