package lifecycle

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
)

// resetGroup names devices that are reset together: a reset group of the backend's, or a
// single device.
type resetGroup struct {
	backend string
	name    string
	single  bool
}

func groupOf(d *inventory.Device) resetGroup {
	if d.ResetGroup != "" {
		return resetGroup{backend: d.Backend, name: d.ResetGroup}
	}
	return resetGroup{backend: d.Backend, name: d.ID, single: true}
}

// attempt is the state of one group: idle ─► running ─► idle (pause) ─► ...
type attempt struct {
	running bool
	members []inventory.Key
	// resets is the number of resets since the fault began.
	resets int
	next   time.Time
	// worked is when the latest reset ended, if the backend reported that it worked; failure
	// is why it failed, "" if it worked.
	worked  time.Time
	failure string
	// blocker completes the phrase "the reset waits until"; "" if it waits for nothing.
	// blocked is since when it waits, reached are the devices that the reset reaches.
	blocker string
	blocked time.Time
	reached []inventory.Key
}

// block records what the reset waits for.
func (a *attempt) block(blocker string, reached []inventory.Key) {
	a.blocker, a.reached = blocker, reached
	if a.blocked.IsZero() {
		a.blocked = time.Now()
	}
}

// unblock records that the reset waits for nothing any more.
func (a *attempt) unblock() { a.blocker, a.blocked, a.reached = "", time.Time{}, nil }

// needing returns the first device of the group that needs a reset; nil if none does.
func (a *attempt) needing(v *round.Round, due map[inventory.Key]holders.DueReset) *inventory.Key {
	for i, key := range a.members {
		if _, ok := due[key]; ok || needsReset(v, key) {
			return &a.members[i]
		}
	}
	return nil
}

// confirmLimit is how long a backend may go on reporting a fault after a reset that worked
// before the group is reset again. For that time, health ignores the report as
// outdated.
const confirmLimit = time.Minute

// longestDelay is the longest recovery delay that health gives a flapping device whose
// configured delay is shorter.
const longestDelay = 5 * time.Minute

// need is a group with a fault that a reset may clear, or with a device whose reset after use is due.
type need struct {
	members []inventory.Key
	// afterUse: a reset after use is due.
	afterUse bool
	// since is when the newest such fault began; reported: the backend still has one in its
	// inventory.
	since    time.Time
	reported bool
	// delay is how long a fault counts after it is cleared.
	delay time.Duration
}

// due is when the group may be reset. After a reset that worked, a fault that began before
// it is given the time to be cleared.
func (a *attempt) due(n *need) time.Time {
	if n.afterUse && a.failure == "" {
		return time.Time{} // an earlier reset was for an earlier use
	}
	if n.afterUse || a.worked.IsZero() || n.since.After(a.worked) {
		return a.next
	}
	cleared := a.worked.Add(confirmLimit)
	if !n.reported {
		cleared = cleared.Add(n.delay)
	}
	if cleared.Before(a.next) {
		return a.next
	}
	return cleared
}

// releasingIn returns the groups that wait for the release of a device, with its ID: the reset would reach it before.
func releasingIn(v *round.Round, due map[inventory.Key]holders.DueReset) map[resetGroup]string {
	groups := map[resetGroup]string{}
	for key, use := range due {
		if device := v.Device(key); device != nil && use.Releasing {
			groups[groupOf(device)] = key.ID
		}
	}
	return groups
}

// groupsToReset returns the groups with a device that a reset may help, or that is to be reset before
// it has another holder.
func groupsToReset(v *round.Round, due map[inventory.Key]holders.DueReset) map[resetGroup]*need {
	groups := map[resetGroup]*need{}
	needOf := func(device *inventory.Device) *need {
		group := groupOf(device)
		if groups[group] == nil {
			groups[group] = &need{delay: max(time.Duration(v.Profile.Backend(device.Backend).Recovery.Delay), longestDelay)}
		}
		return groups[group]
	}
	for key := range v.Health.Faulty() {
		// A device that recovered only waits for its delay to pass.
		if device := v.Device(key); canReset(v, device) && needsReset(v, key) && !device.Health.Recovered {
			needOf(device).add(device, v.Health.Verdict(key))
		}
	}
	releasing := releasingIn(v, due)
	for key := range due {
		if device := v.Device(key); canReset(v, device) && releasing[groupOf(device)] == "" && !beyondReset(v, key) {
			needOf(device).afterUse = true
		}
	}
	for _, backend := range v.Backends() {
		for _, device := range backend.Devices {
			if need := groups[groupOf(device)]; need != nil {
				need.members = append(need.members, device.Key)
			}
		}
	}
	return groups
}

// canReset reports whether the core may have the backend of the device reset it; false for nil.
func canReset(v *round.Round, device *inventory.Device) bool {
	if device == nil || device.Health.Unread != "" {
		return false
	}
	backend, policy := v.Backend(device.Backend), v.Profile.Backend(device.Backend)
	return policy != nil && policy.Recovery.Reset == config.ResetAuto && backend.Description.Reset && backend.LostAt.IsZero()
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

// needsReset reports whether the gravest of the device's own faults is one that a reset may
// clear. A fault of its parent is cleared by a reset of the parent.
func needsReset(v *round.Round, key inventory.Key) bool {
	return gravest(v, key) == inventory.RecoveryReset
}

// beyondReset reports whether the device has a fault of its own that no reset clears.
func beyondReset(v *round.Round, key inventory.Key) bool {
	return gravest(v, key) > inventory.RecoveryReset
}

// gravest returns what the gravest of the device's own faults needs; RecoverySelf without a fault.
func gravest(v *round.Round, key inventory.Key) inventory.Recovery {
	for _, fault := range v.Health.Verdict(key).Faults {
		if fault.From == "" {
			return fault.Recovery
		}
	}
	return inventory.RecoverySelf
}

// reachedBy returns all devices that lose their state in a reset of the members: also the
// partitions of a member, and theirs, whatever groups they name; and, by the reset scopes of
// held devices, those of the group or its partitions that are not listed now.
func reachedBy(v *round.Round, held map[inventory.Key]holders.ResetScope, group resetGroup, members []inventory.Key) []inventory.Key {
	reached := slices.Clone(members)
	isPart := func(backend string, scope holders.ResetScope) bool {
		return slices.ContainsFunc(scope.Parents, func(id string) bool {
			return slices.Contains(members, inventory.Key{Backend: backend, ID: id})
		})
	}
	for key, scope := range held {
		together := scope.Group != "" && resetGroup{backend: key.Backend, name: scope.Group} == group
		if v.Device(key) == nil && (together || isPart(key.Backend, scope)) {
			reached = append(reached, key)
		}
	}
	for _, backend := range v.Backends() {
		for _, device := range backend.Devices {
			if device.Parent != "" && !slices.Contains(members, device.Key) && isPart(device.Backend, v.ResetScope(device)) {
				reached = append(reached, device.Key)
			}
		}
	}
	return reached
}
