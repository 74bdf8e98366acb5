package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
)

// codeResetPending is the fault code of devices that no new container gets, because a reset
// that reaches them waits for the containers that have some of them.
const codeResetPending = "reset-pending"

// pendingReset is a reset that waits: of is the faulted device, blockers what the reset
// waits for.
type pendingReset struct {
	of       inventory.Key
	blockers string
	since    time.Time
}

// waiters returns the devices that resets wait for, without those of groups whose last
// reset failed. The caller holds r.mu.
func (r *resets) waiters(v *round.Round) map[inventory.Key]pendingReset {
	pending := map[inventory.Key]pendingReset{}
	for _, attempt := range r.attempts {
		if attempt.blocker == "" || attempt.failure != "" {
			continue
		}
		faulted := slices.IndexFunc(attempt.members, func(key inventory.Key) bool { return needsReset(v, key) })
		of := attempt.members[max(0, faulted)]
		for _, key := range attempt.reached {
			pending[key] = pendingReset{of: of, blockers: attempt.blocker, since: attempt.blocked}
		}
	}
	return pending
}

// faults returns the faults of devices that are being reset, and of healthy devices that a
// reset waits for.
func (r *resets) faults(judged *health.View) map[inventory.Key]health.Fault {
	faults := resetting(r.agent.book.Resetting())
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, waits := range r.pending {
		if _, resetting := faults[key]; resetting || !judged.Verdict(key).Healthy {
			continue
		}
		if faults == nil {
			faults = map[inventory.Key]health.Fault{}
		}
		faults[key] = health.Fault{
			Code: codeResetPending, Recovery: inventory.RecoverySelf, Since: waits.since,
			Message: fmt.Sprintf("the device is healthy, but no new container gets it: the reset of %s also resets this device, and waits until %s", waits.of.ID, waits.blockers),
		}
	}
	return faults
}

// resetting returns the faults of devices that are being reset since these times; nil if
// there are none.
func resetting(since map[inventory.Key]time.Time) map[inventory.Key]health.Fault {
	if len(since) == 0 {
		return nil
	}
	faults := map[inventory.Key]health.Fault{}
	for key, since := range since {
		faults[key] = health.Fault{
			Code: "resetting", Message: "the device, or one of its reset group, is being reset", Recovery: inventory.RecoverySelf, Since: since,
		}
	}
	return faults
}

// awaited says what a reset waits for at a device, as the end of "waits until".
func (r *resets) awaited(key inventory.Key) string {
	if !r.agent.book.Held(key) {
		return "the work on device " + key.ID + " is done"
	}
	for _, holder := range r.agent.book.Holders(key) {
		if holder.Pod != "" {
			return fmt.Sprintf("pod %s/%s, which has device %s, is gone", holder.Namespace, holder.Pod, key.ID)
		}
	}
	return "the container that has device " + key.ID + ", which kubelet has not named yet, is gone"
}

// waiting are sentences about resets that are not done, by group.
func (r *resets) waiting() map[resetGroup]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := map[resetGroup]string{}
	for group, attempt := range r.attempts {
		var notes []string
		if attempt.blocker != "" {
			notes = append(notes, "a reset would help; it waits until "+attempt.blocker)
		}
		if attempt.failure != "" {
			notes = append(notes, "the last reset failed: "+attempt.failure)
		}
		if len(notes) > 0 {
			waiting[group] = strings.Join(notes, "; ")
		}
	}
	return waiting
}
