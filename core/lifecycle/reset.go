package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxResets is how many groups of a backend are reset at a time: more than a machine has
// that fail at once, and few enough calls for any backend.
const maxResets = 64

// resets recovers faulted devices by resetting them, and resets devices after their use if their
// resource asks for that, a whole reset group at a time, when no
// device that the reset reaches is allocated. While a reset waits for that, none of these
// devices is given to a new container: else it might never begin. After a reset that failed
// the others are given out again: one dead device costs one device.
type resets struct {
	lifecycle *Lifecycle
	mu        sync.Mutex
	// attempts is by group, as long as the group has a fault that a reset may clear, or a reset after use
	// is due.
	attempts map[resetGroup]*attempt
	// running counts by backend the groups that are being reset.
	running map[string]int
	// pending are the devices that a waiting reset reaches.
	pending map[inventory.Key]pendingReset
}

func newResets(l *Lifecycle) *resets {
	return &resets{lifecycle: l, attempts: map[resetGroup]*attempt{}, running: map[string]int{}}
}

// consider starts every reset that may help and is allowed now. It returns when it must be
// called again; zero means on the next change.
func (r *resets) consider(ctx context.Context, v *round.Round) (next time.Time) {
	r.lifecycle.opts.Book.SetResetScopes(func(key inventory.Key) (holders.ResetScope, bool) {
		device := v.Device(key)
		return v.ResetScope(device), device != nil
	})
	r.mu.Lock() // before reading what is due, or a reset that ends meanwhile would be made again
	defer r.mu.Unlock()
	due := r.dueResets(v)
	needed := groupsToReset(v, due)
	r.forget(v, needed, due)
	now := time.Now()
	for group, need := range needed {
		current := r.attempts[group]
		if current == nil {
			current = &attempt{}
			r.attempts[group] = current
		}
		if current.running {
			continue
		}
		current.members = need.members
		if due := current.due(need); now.Before(due) {
			current.unblock()
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if r.running[group.backend] >= maxResets {
			continue // the end of a reset in progress leads to another call
		}
		r.start(ctx, v, group, need.members, current)
	}
	if pending := r.pendingDevices(v, due); !maps.Equal(pending, r.pending) {
		r.pending = pending
		r.lifecycle.opts.Changed()
	}
	return next
}

// dueResets returns the resets after use that are due. Those that no resource asks for any more, or
// never did, are ended.
func (r *resets) dueResets(v *round.Round) map[inventory.Key]holders.DueReset {
	due := r.lifecycle.opts.Book.DueResets()
	for key := range due {
		if !v.ResetsAfterUse(key) {
			r.lifecycle.opts.Book.EndDueResets(key)
			delete(due, key)
		}
	}
	return due
}

// forget removes the attempts of groups that need no reset. A fault that is remembered
// while its device or its backend is away keeps the attempt: a reset that made the backend
// crash has not helped. The caller holds r.mu.
func (r *resets) forget(v *round.Round, needed map[resetGroup]*need, due map[inventory.Key]holders.DueReset) {
	for group, attempt := range r.attempts {
		if needed[group] != nil || attempt.running {
			continue
		}
		attempt.unblock()
		if v.Profile.Backend(group.backend) == nil || attempt.needing(v, due) == nil {
			delete(r.attempts, group)
		}
	}
}

// start resets one group in the background, if the book lets it. The caller holds r.mu.
func (r *resets) start(ctx context.Context, v *round.Round, group resetGroup, members []inventory.Key, current *attempt) {
	l := r.lifecycle
	reached := reachedBy(v, l.opts.Book.ResetScopes(), group, members)
	end, blocker := l.opts.Book.BeginReset(reached)
	if end == nil {
		current.block(r.awaited(blocker), reached)
		return
	}
	current.unblock()
	current.running = true
	r.running[group.backend]++
	l.opts.Changed()
	l.calls.Go(func() {
		err := l.unused(ctx, v, group.backend, reached)
		if err != nil {
			end()
		} else {
			err = r.reset(ctx, group.backend, members, end)
		}
		l.opts.Reset(group.backend, err)
		r.finish(group, members, err)
		l.opts.Changed()
	})
}

// reset calls the backend and gives its results to health. end is called when the backend
// no longer works on the devices.
func (r *resets) reset(ctx context.Context, backend string, members []inventory.Key, end func()) error {
	ids := make([]string, len(members))
	for i, key := range members {
		ids[i] = key.ID
	}
	began := time.Now()
	response, err := r.lifecycle.opts.Backends.Reset(ctx, backend, ids, end)
	if err != nil {
		return err
	}
	results := map[string]*backendv1.ResetResult{}
	for _, result := range response.GetResults() {
		results[result.GetDeviceId()] = result
	}
	var recovered []inventory.Key
	for _, key := range members {
		result := results[key.ID]
		r.lifecycle.opts.Health.ResetDone(key, result.GetRecovered(), result.GetMessage())
		if result.GetRecovered() {
			recovered = append(recovered, key)
		}
	}
	if r.lifecycle.opts.Book.EndDueResets(recovered...) {
		for _, key := range recovered {
			r.lifecycle.opts.Health.Excuse(key, began)
		}
	}
	return unrecovered(members, results)
}

// unrecovered returns an error unless all devices recovered. It has each reason once, as a
// backend that refuses a reset gives the same for all of its devices.
func unrecovered(members []inventory.Key, results map[string]*backendv1.ResetResult) error {
	var reasons []string
	devices := map[string][]string{} // by reason
	for _, key := range members {
		result := results[key.ID]
		if result.GetRecovered() {
			continue
		}
		reason := orNothing(result.GetMessage())
		if devices[reason] == nil {
			reasons = append(reasons, reason)
		}
		devices[reason] = append(devices[reason], key.ID)
	}
	var errs []error
	for _, reason := range reasons {
		who := "device " + devices[reason][0]
		if n := len(devices[reason]); n > 1 {
			who = fmt.Sprintf("%d devices, the first %s,", n, devices[reason][0])
		}
		errs = append(errs, fmt.Errorf("%s did not recover: %s", who, reason))
	}
	return errors.Join(errs...)
}

// finish records the result of a reset, and when the next may begin.
func (r *resets) finish(group resetGroup, members []inventory.Key, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.attempts[group]
	current.running, current.worked = false, time.Time{}
	r.running[group.backend]--
	log := r.lifecycle.log.With("backend", group.backend, "devices", len(members), "first", members[0].ID)
	if err == nil {
		current.worked, current.failure = time.Now(), ""
		log.Info("reset done")
	} else {
		current.failure = err.Error()
		log.Warn("reset failed", "error", err, "resets", current.resets+1)
	}
	current.resets++
	first := r.lifecycle.opts.ResetBackoff
	current.next = time.Now().Add(backoff.After(current.resets, first, maxDoubled*first))
}

func orNothing(text string) string {
	if text == "" {
		return "the backend gives no reason"
	}
	return text
}
