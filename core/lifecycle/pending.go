package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
)

// Codes of the faults of devices that no new container gets: they are being reset, or a
// reset that reaches them waits for the containers that have some of them.
const (
	codeResetting    = "resetting"
	codeResetPending = "reset-pending"
	// codeResetAfterUse is that of a device whose last holder has ended and that was not reset since.
	codeResetAfterUse = "reset-after-use"
)

// AwaitsReset reports whether a device is unhealthy only because it is reset after use. Take waits for that.
func AwaitsReset(v health.Verdict) bool {
	return len(v.Faults) > 0 && !slices.ContainsFunc(v.Faults, func(f health.Fault) bool { return f.Code != codeResetAfterUse })
}

// pendingReset is a reset that waits: of is the faulted device, blocker completes the phrase
// "waits until".
type pendingReset struct {
	of      inventory.Key
	blocker string
	since   time.Time
}

// pendingDevices returns the devices that waiting resets reach, without those of groups whose last
// reset failed. The caller holds r.mu.
func (r *resets) pendingDevices(v *round.Round, due map[inventory.Key]holders.DueReset) map[inventory.Key]pendingReset {
	pending := map[inventory.Key]pendingReset{}
	for _, attempt := range r.attempts {
		if attempt.blocker == "" || attempt.failure != "" {
			continue
		}
		of := attempt.members[0]
		if needing := attempt.needing(v, due); needing != nil {
			of = *needing
		}
		for _, key := range attempt.reached {
			pending[key] = pendingReset{of: of, blocker: attempt.blocker, since: attempt.blocked}
		}
	}
	return pending
}

// MayPrepare reports whether a claim that has a device may be prepared: it is healthy, awaits its reset after use, or
// its preparation failed before. The scheduler may have chosen it before it had the taint, and kubelet tries again.
func MayPrepare(v health.Verdict) bool {
	return !slices.ContainsFunc(v.Faults, func(f health.Fault) bool { return f.Code != codeResetAfterUse && f.Code != codePreparationFailed })
}

// Faults returns the faults of devices that are being reset, or are to be reset before they have
// another holder, or whose preparation failed, and of healthy devices that a waiting reset reaches.
func (l *Lifecycle) Faults(judged *health.View) map[inventory.Key]health.Fault {
	faults := map[inventory.Key]health.Fault{}
	for key, since := range l.opts.Book.Resetting() {
		faults[key] = health.Fault{
			Code: codeResetting, Recovery: inventory.RecoverySelf, Since: since,
			Message: "the device, or one of its reset group, is being reset",
		}
	}
	l.addDueResets(faults)
	l.failed.addTo(faults)
	l.resets.mu.Lock()
	defer l.resets.mu.Unlock()
	for key, waits := range l.resets.pending {
		if _, ok := faults[key]; ok || !judged.Verdict(key).Healthy {
			continue
		}
		faults[key] = health.Fault{
			Code: codeResetPending, Recovery: inventory.RecoverySelf, Since: waits.since,
			Message: fmt.Sprintf("the device is healthy, but no new container gets it: the reset of %s also resets this device, and waits until %s", waits.of.ID, waits.blocker),
		}
	}
	return faults
}

// addDueResets adds the faults of devices that are reset after use.
func (l *Lifecycle) addDueResets(faults map[inventory.Key]health.Fault) {
	due := l.opts.Book.DueResets()
	if len(due) == 0 {
		return
	}
	v, note := l.opts.Round(), l.resetNotes("; the reset is tried again; if it keeps failing, reboot the node")
	releasing := releasingIn(v, due)
	for key, use := range due {
		if !v.ResetsAfterUse(key) {
			continue // the resets' next round ends it
		}
		message := "the reset is about to begin"
		switch device := v.Device(key); {
		case use.Releasing:
			message = "the backend has to release it first"
		case faults[key].Code == codeResetting:
			message = "it is being reset"
		case device != nil && releasing[groupOf(device)] != "":
			message = "the backend has to release " + releasing[groupOf(device)] + " of its reset group first"
		case device != nil && note(device) != "":
			message = note(device)
		}
		faults[key] = health.Fault{
			Code: codeResetAfterUse, Recovery: inventory.RecoverySelf, Since: use.Since,
			Message: "it was used, and no other container gets it before a reset: " + message,
		}
	}
}

// awaited returns what a reset waits for at a device. It completes the phrase "waits until".
func (r *resets) awaited(key inventory.Key) string {
	book := r.lifecycle.opts.Book
	if !book.Held(key) {
		return "the operation on device " + key.ID + " has ended"
	}
	for _, allocation := range book.AllocationsOf(key) {
		for _, c := range allocation.Containers {
			return fmt.Sprintf("pod %s/%s, which has device %s, is gone", c.Namespace, c.Pod, key.ID)
		}
		if c := allocation.Claim; c != nil {
			return fmt.Sprintf("claim %s/%s, which has device %s, is unprepared", c.Namespace, c.Name, key.ID)
		}
	}
	return "the container that has device " + key.ID + ", which kubelet has not listed yet, is gone"
}

// ResetNotes returns a function that returns, for a device that a reset may help or that is reset after
// use, why that is not done: what its reset waits for, or why the last one failed; ""
// if neither applies.
func (l *Lifecycle) ResetNotes() func(*inventory.Device) string { return l.resetNotes("") }

// resetNotes is ResetNotes, with advice after the reason of a failure.
func (l *Lifecycle) resetNotes(advice string) func(*inventory.Device) string {
	l.resets.mu.Lock()
	defer l.resets.mu.Unlock()
	notes := map[resetGroup]string{}
	for group, attempt := range l.resets.attempts {
		var parts []string
		if attempt.blocker != "" {
			parts = append(parts, "the reset waits until "+attempt.blocker)
		}
		if attempt.failure != "" {
			parts = append(parts, "the last reset failed: "+attempt.failure+advice)
		}
		notes[group] = strings.Join(parts, "; ")
	}
	return func(d *inventory.Device) string { return notes[groupOf(d)] }
}
