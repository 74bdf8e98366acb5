package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxResetDoublings bounds the back-off between resets that do not help.
const maxResetDoublings = 6

// resets tries to recover faulted devices by resetting them, a whole reset group
// at a time, when nobody holds a device of the group.
type resets struct {
	agent *Agent
	mu    sync.Mutex
	// attempts is by group; a group leaves it when it needs no reset any more.
	attempts map[resetGroup]*attempt
}

// resetGroup names devices that are reset together: a reset group of the
// backend's, or a device on its own.
type resetGroup struct {
	backend string
	name    string
	single  bool
}

// attempt is the state of one group: idle ─► running ─► idle (pause) ─► ...
type attempt struct {
	running  bool
	failures int
	next     time.Time
	// waits says why nothing is done, for status; "" if something is.
	waits string
}

func newResets(a *Agent) *resets {
	return &resets{agent: a, attempts: map[resetGroup]*attempt{}}
}

// consider starts every reset that may help and is allowed now. It returns when
// it wants to be asked again; zero means on the next change.
func (r *resets) consider(ctx context.Context, v *view) (next time.Time) {
	wanted := r.wanted(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	for group, attempt := range r.attempts {
		if _, ok := wanted[group]; !ok && !attempt.running {
			delete(r.attempts, group)
		}
	}
	now := time.Now()
	for group, members := range wanted {
		current := r.attempts[group]
		if current == nil {
			current = &attempt{}
			r.attempts[group] = current
		}
		switch {
		case current.running:
		case now.Before(current.next):
			next = earliest(next, current.next)
		default:
			r.start(ctx, group, members, current)
		}
	}
	return next
}

// start resets one group in the background, unless a device of it is held. The
// caller holds r.mu.
func (r *resets) start(ctx context.Context, group resetGroup, members []inventory.Key, current *attempt) {
	end, holder := r.agent.gate.begin(resetting, members, r.agent.book.Held)
	if end == nil {
		current.waits = fmt.Sprintf("a reset would help, but device %s is in use: it waits until its pod is gone", holder.ID)
		return
	}
	current.running, current.waits = true, ""
	r.agent.poke()
	r.agent.running.Go(func() {
		err := r.reset(ctx, group.backend, members)
		end()
		r.finish(group, members, err)
		r.agent.poke()
	})
}

// reset calls the backend and hands its results to health as evidence.
func (r *resets) reset(ctx context.Context, backend string, members []inventory.Key) error {
	ids := make([]string, len(members))
	for i, key := range members {
		ids[i] = key.ID
	}
	response, err := r.agent.supervisor.Reset(ctx, backend, ids)
	if err != nil {
		return err
	}
	results := map[string]*backendv1.ResetResult{}
	for _, result := range response.GetResults() {
		results[result.GetDeviceId()] = result
	}
	for _, key := range members {
		result := results[key.ID]
		r.agent.health.ResetDone(key, result.GetRecovered(), result.GetMessage())
		if !result.GetRecovered() {
			err = errors.Join(err, fmt.Errorf("device %s did not recover: %s", key.ID, orNothing(result.GetMessage())))
		}
	}
	return err
}

func (r *resets) finish(group resetGroup, members []inventory.Key, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.attempts[group]
	current.running = false
	log := r.agent.log.With("backend", group.backend, "devices", len(members), "first", members[0].ID)
	if err == nil {
		current.failures = 0
		log.Info("reset done")
	} else {
		current.waits = "the last reset failed: " + err.Error()
		log.Warn("reset failed", "error", err, "failures", current.failures+1)
	}
	pause := r.agent.opts.Timing.ResetBackoff << min(current.failures, maxResetDoublings)
	current.next = time.Now().Add(pause + rand.N(pause/4+1))
	current.failures++
}

// wanted are the groups with a device that a reset may help.
func (r *resets) wanted(v *view) map[resetGroup][]inventory.Key {
	wanted := map[resetGroup][]inventory.Key{}
	for _, backend := range v.snapshot.Backends {
		policy := v.plan.backend(backend.Name)
		if policy == nil || policy.Recovery.Reset != config.ResetAuto || !backend.Description.Reset || !backend.LostAt.IsZero() {
			continue
		}
		for _, device := range backend.Devices {
			if needsReset(v, device.Key) {
				wanted[groupOf(device)] = nil
			}
		}
		for _, device := range backend.Devices {
			group := groupOf(device)
			if members, ok := wanted[group]; ok {
				wanted[group] = append(members, device.Key)
			}
		}
	}
	return wanted
}

// needsReset reports whether the gravest of the device's own faults is one that
// a reset may end. A partition's parent is reset for its own faults.
func needsReset(v *view, key inventory.Key) bool {
	for _, fault := range v.health.Verdict(key).Faults {
		if fault.From == "" {
			return fault.Recovery == inventory.RecoveryReset
		}
	}
	return false
}

func groupOf(d *inventory.Device) resetGroup {
	if d.ResetGroup != "" {
		return resetGroup{backend: d.Backend, name: d.ResetGroup}
	}
	return resetGroup{backend: d.Backend, name: d.ID, single: true}
}

// waiting are sentences about resets that are not done, by group.
func (r *resets) waiting() map[resetGroup]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := map[resetGroup]string{}
	for group, attempt := range r.attempts {
		if attempt.waits != "" {
			waiting[group] = attempt.waits
		}
	}
	return waiting
}

func orNothing(text string) string {
	if text == "" {
		return "the backend gives no reason"
	}
	return text
}

// earliest is the earlier of two times, where zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
