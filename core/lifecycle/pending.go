package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
)

// Codes of the faults of devices that no new container gets: they are being reset, or a
// reset that reaches them waits for the containers that have some of them.
const (
	codeResetting    = "resetting"
	codeResetPending = "reset-pending"
)

// pendingReset is a reset that waits: of is the faulted device, blocker completes the phrase
// "waits until".
type pendingReset struct {
	of      inventory.Key
	blocker string
	since   time.Time
}

// pendingDevices returns the devices that waiting resets reach, without those of groups whose last
// reset failed. The caller holds r.mu.
func (r *resets) pendingDevices(v *round.Round) map[inventory.Key]pendingReset {
	pending := map[inventory.Key]pendingReset{}
	for _, attempt := range r.attempts {
		if attempt.blocker == "" || attempt.failure != "" {
			continue
		}
		faulted := slices.IndexFunc(attempt.members, func(key inventory.Key) bool { return needsReset(v, key) })
		of := attempt.members[max(0, faulted)]
		for _, key := range attempt.reached {
			pending[key] = pendingReset{of: of, blocker: attempt.blocker, since: attempt.blocked}
		}
	}
	return pending
}

// Faults returns the faults of devices that are being reset, and of healthy devices that a
// waiting reset reaches.
func (l *Lifecycle) Faults(judged *health.View) map[inventory.Key]health.Fault {
	faults := map[inventory.Key]health.Fault{}
	for key, since := range l.opts.Book.Resetting() {
		faults[key] = health.Fault{
			Code: codeResetting, Recovery: inventory.RecoverySelf, Since: since,
			Message: "the device, or one of its reset group, is being reset",
		}
	}
	l.resets.mu.Lock()
	defer l.resets.mu.Unlock()
	for key, waits := range l.resets.pending {
		if _, resetting := faults[key]; resetting || !judged.Verdict(key).Healthy {
			continue
		}
		faults[key] = health.Fault{
			Code: codeResetPending, Recovery: inventory.RecoverySelf, Since: waits.since,
			Message: fmt.Sprintf("the device is healthy, but no new container gets it: the reset of %s also resets this device, and waits until %s", waits.of.ID, waits.blocker),
		}
	}
	return faults
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

// ResetNotes returns a function that returns, for a device with a fault that a reset may
// clear, why it is not cleared: what its reset waits for, or why the last one failed; ""
// if neither applies.
func (l *Lifecycle) ResetNotes() func(*inventory.Device) string {
	l.resets.mu.Lock()
	defer l.resets.mu.Unlock()
	notes := map[resetGroup]string{}
	for group, attempt := range l.resets.attempts {
		var parts []string
		if attempt.blocker != "" {
			parts = append(parts, "a reset may clear it, and waits until "+attempt.blocker)
		}
		if attempt.failure != "" {
			parts = append(parts, "the last reset failed: "+attempt.failure)
		}
		notes[group] = strings.Join(parts, "; ")
	}
	return func(d *inventory.Device) string { return notes[groupOf(d)] }
}
