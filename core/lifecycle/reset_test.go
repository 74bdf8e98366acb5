package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies when a group is reset again: after a reset that failed, when its pause has
// passed; after one that worked, when the fault came back or stays.
func TestResetIsDue(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	worked := attempt{worked: at(0), next: at(10 * time.Second)}
	for name, c := range map[string]struct {
		attempt attempt
		need    need
		want    time.Time
	}{
		"the first one":             {attempt{}, need{since: at(0)}, time.Time{}},
		"after one that failed":     {attempt{next: at(20 * time.Second)}, need{since: at(-1), reported: true}, at(20 * time.Second)},
		"used after a reset":        {worked, need{afterUse: true}, time.Time{}},
		"used, and one failed":      {attempt{next: at(20 * time.Second), failure: "x"}, need{afterUse: true}, at(20 * time.Second)},
		"fallen again":              {worked, need{since: at(1)}, worked.next},
		"reported all the same":     {worked, need{since: at(-1), reported: true, delay: time.Hour}, at(confirmLimit)},
		"over, and sound so far":    {worked, need{since: at(-1), delay: time.Hour}, at(confirmLimit + time.Hour)},
		"a pause that lasts longer": {attempt{worked: at(0), next: at(time.Hour)}, need{since: at(-1), reported: true}, at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			if due := c.attempt.due(&c.need); !due.Equal(c.want) {
				t.Errorf("due %v after the start, want %v", due.Sub(start), c.want.Sub(start))
			}
		})
	}
}

// Verifies that a device which is held keeps from being reset what would take it along: its
// group, and what it is a part of without a common group; also after it was removed from the
// inventory, and also with a book that an earlier agent wrote.
func TestRemovedDeviceKeeps(t *testing.T) {
	instance := inventory.Key{Backend: keyA.Backend, ID: "instance"}
	for name, c := range map[string]struct {
		reset, held *inventory.Device
		others      []*inventory.Device
		waits       bool
	}{
		"its reset group":       {&inventory.Device{Key: keyA, ResetGroup: "card"}, &inventory.Device{Key: keyB, ResetGroup: "card"}, nil, true},
		"not another group":     {&inventory.Device{Key: keyA, ResetGroup: "other"}, &inventory.Device{Key: keyB, ResetGroup: "card"}, nil, false},
		"what it is a part of":  {&inventory.Device{Key: keyA}, &inventory.Device{Key: keyB, Parent: keyA.ID}, nil, true},
		"in a group of its own": {&inventory.Device{Key: keyA}, &inventory.Device{Key: keyB, Parent: keyA.ID, ResetGroup: "part"}, nil, true},
		"what that is a part of": {&inventory.Device{Key: keyA}, &inventory.Device{Key: keyB, Parent: instance.ID},
			[]*inventory.Device{{Key: instance, Parent: keyA.ID}}, true},
		"not what is like it": {&inventory.Device{Key: keyA, Parent: instance.ID}, &inventory.Device{Key: keyB, Parent: instance.ID},
			[]*inventory.Device{{Key: instance}}, false},
	} {
		for _, restarted := range []bool{false, true} {
			r := newRig(t)
			r.round = roundOf(append(c.others, c.reset, c.held)...)
			r.take(t, c.held)
			start := func(what string, members ...inventory.Key) {
				current := &attempt{}
				r.l.resets.start(t.Context(), r.round, groupOf(c.reset), members, current)
				if current.running || current.blocker == "" {
					t.Errorf("%s, restarted %v, %s: reset although %s is held: %+v", name, restarted, what, keyB, current)
				}
			}
			switch {
			case !c.waits:
			case groupOf(c.reset) == groupOf(c.held):
				start("listed", keyA, keyB)
			default:
				start("listed", keyA)
			}
			if restarted {
				r.reopen(t)
			}
			r.round = roundOf(append(c.others, c.reset)...)
			for range 2 { // it stays known
				r.l.resets.consider(t.Context(), r.round)
				reached := reachedBy(r.round, r.book.ResetScopes(), groupOf(c.reset), []inventory.Key{keyA})
				if waits := slices.Contains(reached, keyB); waits != c.waits {
					t.Errorf("%s, restarted %v: a reset of %s reaches %v, want %s among them: %v", name, restarted, keyA, reached, keyB, c.waits)
				}
			}
			if c.waits {
				start("removed", keyA)
			}
		}
	}
}

// Verifies that devices have a fault while they are being reset, and none after it.
func TestResetsAreSeen(t *testing.T) {
	r, all := newRig(t), many(3)
	judged := newJudge(t).Judge(all)
	device := all.Backends[0].Devices[1].Key
	end, _ := r.book.BeginReset([]inventory.Key{device})
	if faults := r.l.Faults(judged); len(faults) != 1 || faults[device].Code != codeResetting || faults[device].Since.IsZero() {
		t.Errorf("faults during the reset: %v", faults)
	}
	end()
	if faults := r.l.Faults(judged); len(faults) > 0 {
		t.Errorf("faults after the reset: %v", faults)
	}
}

// Verifies that a reset that is refused for all devices of a group says why once.
func TestUnrecovered(t *testing.T) {
	one, two, three := inventory.Key{ID: "a"}, inventory.Key{ID: "b"}, inventory.Key{ID: "c"}
	failed := func(why string) *backendv1.ResetResult { return &backendv1.ResetResult{Message: why} }
	for name, c := range map[string]struct {
		results map[string]*backendv1.ResetResult
		want    string
	}{
		"all the same": {map[string]*backendv1.ResetResult{"a": failed("in use"), "b": failed("in use"), "c": failed("in use")},
			"3 devices, the first a, did not recover: in use"},
		"each its own": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": failed("hot"), "c": failed("dead")},
			"device b did not recover: hot\ndevice c did not recover: dead"},
		"no answer": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": {Recovered: true}},
			"device c did not recover: " + orNothing("")},
		"all well": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": {Recovered: true}, "c": {Recovered: true}}, ""},
	} {
		got := ""
		if err := unrecovered([]inventory.Key{one, two, three}, c.results); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Verifies which groups are to be reset, and of what devices.
func TestGroupsToReset(t *testing.T) {
	unhealthy := func(recovery inventory.Recovery) inventory.Health {
		return inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: recovery}
	}
	for name, c := range map[string]struct {
		change func(*config.Backend, *inventory.Backend)
		want   bool
	}{
		"a fault that a reset clears": {func(*config.Backend, *inventory.Backend) {}, true},
		"it is set to never":          {func(p *config.Backend, _ *inventory.Backend) { p.Recovery.Reset = config.ResetNever }, false},
		"the backend cannot reset":    {func(_ *config.Backend, b *inventory.Backend) { b.Description.Reset = false }, false},
		"the backend is lost":         {func(_ *config.Backend, b *inventory.Backend) { b.LostAt = time.Now() }, false},
		"it recovers on its own":      {func(_ *config.Backend, b *inventory.Backend) { b.Devices[0].Health = unhealthy(inventory.RecoverySelf) }, false},
		"its delay passes":            {func(_ *config.Backend, b *inventory.Backend) { b.Devices[0].Health.Recovered = true }, false},
	} {
		profile := &config.Profile{Backends: []config.Backend{{Name: "mock", Recovery: config.RecoveryPolicy{Reset: config.ResetAuto}}}}
		all := many(4)
		backend := all.Backends[0]
		backend.Description.Reset = true
		for _, i := range []int{0, 2} {
			backend.Devices[i].ResetGroup = "g"
		}
		backend.Devices[0].Health, backend.Devices[3].Health = unhealthy(inventory.RecoveryReset), unhealthy(inventory.RecoverySelf)
		c.change(&profile.Backends[0], backend)
		groups := groupsToReset(round.New(round.Round{Profile: profile, Snapshot: all, Health: newJudge(t).Judge(all), Table: &resource.Table{}}), nil)
		need := groups[resetGroup{backend: "mock", name: "g"}]
		if !c.want {
			if len(groups) > 0 {
				t.Errorf("%s: reset are %v", name, groups)
			}
			continue
		}
		members := []inventory.Key{backend.Devices[0].Key, backend.Devices[2].Key}
		if len(groups) != 1 || need == nil || !slices.Equal(need.members, members) || need.since.IsZero() || !need.reported || need.delay < longestDelay {
			t.Errorf("%s: reset are %v, the group %+v; want %v", name, groups, need, members)
		}
	}
}

// Verifies that what a pending reset would reach is given to no new container while it
// waits for one that holds a part of it, by the reset group, and again when it no longer
// waits: the fault is cleared, or a reset has failed.
func TestPendingResetIsGivenToNobodyNew(t *testing.T) {
	all := many(5)
	backend := all.Backends[0]
	backend.Description.Reset = true
	for i, group := range []string{"g", "g", "g", "", "h"} {
		backend.Devices[i].ResetGroup = group
	}
	backend.Devices[3].Parent = backend.Devices[0].ID
	backend.Devices[0].Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoveryReset}
	r, judge := newRig(t), newJudge(t)
	r.take(t, backend.Devices[1])
	resets := r.l.resets
	run := func() string {
		judged := judge.Judge(all)
		faults := r.l.Faults(judged)
		r.round = roundWith(all, judged)
		resets.consider(t.Context(), r.round)
		codes := ""
		for _, d := range all.Backends[0].Devices {
			code := "-"
			for _, fault := range append(slices.Clone(judged.Verdict(d.Key).Faults), faults[d.Key]) {
				if fault.Code != "" {
					code = strings.TrimPrefix(fault.Code, "reset-")
				}
			}
			codes += code + ","
		}
		return codes
	}
	check := func(what, want string) {
		t.Helper()
		run()
		before := r.changed
		if got := run(); got != want || r.changed != before {
			t.Errorf("%s: the devices are %q, want %q; another round: %v", what, got, want, r.changed != before)
		}
	}
	note := func() string { return r.l.ResetNotes()(backend.Devices[0]) }
	// The partition has the fault of its parent.
	check("a reset waits", "x,pending,pending,x,-,")
	if !strings.Contains(note(), "mock-1") {
		t.Errorf("the note is %q", note())
	}
	current := resets.attempts[resetGroup{backend: "mock", name: "g"}]
	current.failure = "it is broken"
	check("the last reset failed", "x,-,-,x,-,")
	current.failure = ""
	check("a reset waits again", "x,pending,pending,x,-,")
	all = flapped(all, 0, false)
	check("the fault is cleared, but for its delay", "x,-,-,x,-,")
	if note() != "" {
		t.Errorf("the note is %q though nothing waits", note())
	}
}
