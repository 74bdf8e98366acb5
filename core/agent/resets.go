package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxResetDoublings bounds the back-off between resets that do not help.
const maxResetDoublings = 6

// maxResets is how many groups of a backend are reset at a time: more than a machine
// has that a reset at once helps, and few enough calls for any backend. What a reset
// reaches is found by a look at all devices, which this many bear in one round.
const maxResets = 64

// resets tries to recover faulted devices by resetting them, a whole reset group
// at a time, when no device of the group is allocated. Meanwhile no device of the group
// is given to a new container: else the reset might be put off for ever. After a reset
// that failed the others are given out again: one dead device costs one device.
type resets struct {
	agent *Agent
	mu    sync.Mutex
	// attempts is by group; a group leaves it when it needs no reset any more.
	attempts map[resetGroup]*attempt
	// absent are the kin of devices that are listed no more but held: a reset would
	// reach those, too.
	absent map[inventory.Key]holders.Kin
	// last is the view that was learned from.
	last *round.Round
	// running counts by backend the groups that are being reset.
	running map[string]int
	// pending are devices that a reset waits for, and since when.
	pending map[inventory.Key]pendingReset
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
	running bool
	members []inventory.Key
	// resets counts those since the group was last sound.
	resets int
	next   time.Time
	// worked is when the latest reset ended, if the backend says that it worked.
	worked time.Time
	// failure is why the last reset failed, "" if it worked.
	failure string
	// blocker is what a reset waits for, "" if for nothing; blocked is since when; reached
	// are the devices that the reset reaches.
	blocker string
	blocked time.Time
	reached []inventory.Key
}

// unblock records that the reset waits for nothing any more.
func (a *attempt) unblock() { a.blocker, a.blocked, a.reached = "", time.Time{}, nil }

// confirmLimit is how long a backend may go on reporting a fault after a reset
// that worked, by its own word, before the group is reset again. It is as long as
// health takes such a report for one from before the reset.
const confirmLimit = time.Minute

// longestDelay is what health may make of a shorter recovery delay for a device
// that flaps.
const longestDelay = 5 * time.Minute

// need is a group with a fault that a reset may end.
type need struct {
	members []inventory.Key
	// since is when the newest such fault began; reported says that the backend
	// still has one in its inventory.
	since    time.Time
	reported bool
	// delay is how long a fault that is over may still count.
	delay time.Duration
}

// due is when the group may be reset. After a reset that worked, a fault that
// did not begin anew is given the time to go.
func (a *attempt) due(n *need) time.Time {
	if a.worked.IsZero() || n.since.After(a.worked) {
		return a.next
	}
	gone := a.worked.Add(confirmLimit)
	if !n.reported {
		gone = gone.Add(n.delay)
	}
	if gone.Before(a.next) {
		return a.next
	}
	return gone
}

func newResets(a *Agent) *resets {
	return &resets{agent: a, attempts: map[resetGroup]*attempt{}, absent: map[inventory.Key]holders.Kin{}, running: map[string]int{}}
}

// consider starts every reset that may help and is allowed now. It returns when
// it wants to be asked again; zero means on the next change.
func (r *resets) consider(ctx context.Context, v *round.Round) (next time.Time) {
	wanted := r.wanted(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(v)
	r.forget(v, wanted)
	now := time.Now()
	for group, need := range wanted {
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
			next = earliest(next, due)
			continue
		}
		if r.running[group.backend] >= maxResets {
			continue // the end of one of those that go on asks for another round
		}
		r.start(ctx, v, group, need.members, current)
	}
	if pending := r.waiters(v); !maps.Equal(pending, r.pending) {
		r.pending = pending
		r.agent.poke() // the next round withdraws the devices, or advertises them again
	}
	return next
}

// learn takes note of which devices belong together. The caller holds r.mu.
func (r *resets) learn(v *round.Round) {
	book := r.agent.book
	away := func(key inventory.Key) bool { return v.Device(key) == nil && book.Held(key) }
	maps.DeleteFunc(r.absent, func(key inventory.Key, _ holders.Kin) bool { return !away(key) })
	for _, backend := range r.last.Backends() {
		if slices.Contains(v.Backends(), backend) {
			continue // no device was removed
		}
		for _, device := range backend.Devices {
			if (device.ResetGroup != "" || device.Parent != "") && away(device.Key) {
				r.absent[device.Key] = r.last.Kin(device)
			}
		}
	}
	// Also of those that have not been there since this agent started.
	for key, kin := range book.Kin() {
		if v.Device(key) == nil {
			r.absent[key] = kin
		}
	}
	r.last = v
	book.Related(func(key inventory.Key) (holders.Kin, bool) {
		device := v.Device(key)
		if device == nil {
			return holders.Kin{}, false
		}
		return v.Kin(device), true
	})
}

// forget ends the attempts of groups that are sound again. A fault that is
// remembered while its device or its backend is away keeps them: a reset that
// took the backend along has not helped. The caller holds r.mu.
func (r *resets) forget(v *round.Round, wanted map[resetGroup]*need) {
	for group, attempt := range r.attempts {
		if wanted[group] != nil || attempt.running {
			continue
		}
		attempt.unblock()
		faulted := func(key inventory.Key) bool { return needsReset(v, key) }
		if v.Profile.Backend(group.backend) == nil || !slices.ContainsFunc(attempt.members, faulted) {
			delete(r.attempts, group)
		}
	}
}

// start resets one group in the background, unless a device of it is held, also
// one that is not listed now. The caller holds r.mu.
func (r *resets) start(ctx context.Context, v *round.Round, group resetGroup, members []inventory.Key, current *attempt) {
	reached := r.reached(v, group, members)
	end, blocker := r.agent.book.BeginReset(reached)
	if end == nil {
		current.blocker, current.reached = r.awaited(blocker), reached
		if current.blocked.IsZero() {
			current.blocked = time.Now()
		}
		return
	}
	current.unblock()
	current.running = true
	r.running[group.backend]++
	r.agent.poke()
	r.agent.onDuty.Go(func() {
		err := r.reset(ctx, group.backend, members, end)
		r.agent.tally.Reset(group.backend, err)
		r.finish(group, members, err)
		r.agent.poke()
	})
}

// reached are all devices that lose their state in a reset of the members: also
// those of the group that are not listed now, and partitions of a member, and theirs,
// whatever groups they name. The caller holds r.mu.
func (r *resets) reached(v *round.Round, group resetGroup, members []inventory.Key) []inventory.Key {
	reached := slices.Clone(members)
	partOf := func(backend string, kin holders.Kin) bool {
		return slices.ContainsFunc(kin.Parents, func(id string) bool {
			return slices.Contains(members, inventory.Key{Backend: backend, ID: id})
		})
	}
	for key, kin := range r.absent {
		together := kin.ResetGroup != "" && resetGroup{backend: key.Backend, name: kin.ResetGroup} == group
		if v.Device(key) == nil && (together || partOf(key.Backend, kin)) {
			reached = append(reached, key)
		}
	}
	for _, backend := range v.Backends() {
		for _, device := range backend.Devices {
			if device.Parent != "" && !slices.Contains(members, device.Key) && partOf(device.Backend, v.Kin(device)) {
				reached = append(reached, device.Key)
			}
		}
	}
	return reached
}

// reset calls the backend and hands its results to health as evidence. end is called when
// the backend no longer works on the devices.
func (r *resets) reset(ctx context.Context, backend string, members []inventory.Key, end func()) error {
	ids := make([]string, len(members))
	for i, key := range members {
		ids[i] = key.ID
	}
	response, err := r.agent.supervisor.Reset(ctx, backend, ids, end)
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
	}
	return unrecovered(members, results)
}

// unrecovered is an error unless all devices recovered: a sentence for each reason, of
// which a reset that is refused has one for all its devices.
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

func (r *resets) finish(group resetGroup, members []inventory.Key, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.attempts[group]
	current.running, current.worked = false, time.Time{}
	r.running[group.backend]--
	log := r.agent.log.With("backend", group.backend, "devices", len(members), "first", members[0].ID)
	if err == nil {
		current.worked, current.failure = time.Now(), ""
		log.Info("reset done")
	} else {
		current.failure = err.Error()
		log.Warn("reset failed", "error", err, "resets", current.resets+1)
	}
	pause := r.agent.opts.Timing.ResetBackoff << min(current.resets, maxResetDoublings)
	current.next = time.Now().Add(pause + rand.N(pause/4+1))
	current.resets++
}

// wanted returns the groups with a device that a reset may help.
func (r *resets) wanted(v *round.Round) map[resetGroup]*need {
	wanted := map[resetGroup]*need{}
	for key := range v.Health.Faulty() {
		device, backend, policy := v.Device(key), v.Backend(key.Backend), v.Profile.Backend(key.Backend)
		if device == nil || policy == nil || !needsReset(v, key) || policy.Recovery.Reset != config.ResetAuto ||
			!backend.Description.Reset || !backend.LostAt.IsZero() ||
			device.Health.Recovered { // then it only waits for its delay to pass
			continue
		}
		group := groupOf(device)
		if wanted[group] == nil {
			wanted[group] = &need{delay: max(time.Duration(policy.Recovery.Delay), longestDelay)}
		}
		wanted[group].add(device, v.Health.Verdict(key))
	}
	for _, backend := range v.Backends() {
		for _, device := range backend.Devices {
			if need := wanted[groupOf(device)]; need != nil {
				need.members = append(need.members, device.Key)
			}
		}
	}
	return wanted
}

func (n *need) add(device *inventory.Device, verdict health.Verdict) {
	for _, fault := range verdict.Faults {
		if fault.From != "" || fault.Recovery != inventory.RecoveryReset {
			continue
		}
		if fault.Since.After(n.since) {
			n.since = fault.Since
		}
		n.reported = n.reported || device.Health.State == inventory.StateUnhealthy && device.Health.Code == fault.Code
	}
}

// needsReset reports whether the gravest of the device's own faults is one that
// a reset may end. A partition's parent is reset for its own faults.
func needsReset(v *round.Round, key inventory.Key) bool {
	for _, fault := range v.Health.Verdict(key).Faults {
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
