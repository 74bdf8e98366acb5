package agent

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

var (
	keyA = inventory.Key{Backend: "mock", ID: "a"}
	keyB = inventory.Key{Backend: "mock", ID: "b"}
)

func nobody(inventory.Key) bool { return false }

// Verifies when a group is reset again: after a reset that failed, when its pause
// is over; after one that worked, when the fault began anew or does not go.
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

// Verifies that a device which is held keeps from being reset what would take it along,
// also after it has gone from the inventory, and also from an agent that never saw it:
// the book knows.
func TestAbsentHolderKeeps(t *testing.T) {
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
			a := &Agent{book: holding(t, keyB)}
			all := viewOf(append(c.others, c.reset, c.held)...)
			r := newResets(a)
			if restarted {
				r.learn(all)
				r = newResets(a)
			} else { // and it was allocated since
				r.last = all
			}
			alone := viewOf(append(c.others, c.reset)...)
			r.learn(alone)
			r.learn(alone) // and remembers
			reached := r.reached(alone, groupOf(c.reset), []inventory.Key{keyA})
			waits := slices.Contains(reached, keyB)
			if waits != c.waits {
				t.Errorf("%s, restarted %v: a reset of %s reaches %v, want %s among them: %v", name, restarted, keyA, reached, keyB, c.waits)
			}
			if !waits {
				continue
			}
			current := &attempt{}
			if r.start(t.Context(), alone, groupOf(c.reset), []inventory.Key{keyA}, current); current.running || current.blocker == "" {
				t.Errorf("%s, restarted %v: reset although %s is held: %+v", name, restarted, keyB, current)
			}
		}
	}
}

// Verifies that a parent is not reset while one of its partitions is held, or one of
// theirs, also if the backend put them into no common reset group.
func TestHeldPartitionKeepsParent(t *testing.T) {
	instance := inventory.Key{Backend: keyA.Backend, ID: "instance"}
	for name, v := range map[string]*round.Round{
		"a partition":       viewOf(&inventory.Device{Key: keyA}, &inventory.Device{Key: keyB, Parent: keyA.ID}),
		"one of that one's": viewOf(&inventory.Device{Key: keyA}, &inventory.Device{Key: instance, Parent: keyA.ID}, &inventory.Device{Key: keyB, Parent: instance.ID}),
	} {
		r := newResets(&Agent{book: holding(t, keyB)})
		current := &attempt{}
		r.start(t.Context(), v, groupOf(v.Device(keyA)), []inventory.Key{keyA}, current)
		if current.running || current.blocker == "" {
			t.Errorf("%s: the parent is reset although it is held: %+v", name, current)
		}
	}
}

// viewOf is a round of devices of one backend that no resource has.
func viewOf(devices ...*inventory.Device) *round.Round {
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: keyA.Backend, Devices: devices}}}
	return round.New(round.Round{Snapshot: snapshot, Table: &resource.Table{}})
}

// holding is a book in which a container holds the device.
func holding(t *testing.T, key inventory.Key) *holders.Book {
	t.Helper()
	book, err := holders.Open(holders.Options{
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot", Socket: "/nowhere",
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Take(t.Context(), "example.com/gpu", []holders.Unit{{ID: key.ID, Device: key}}); err != nil {
		t.Fatal(err)
	}
	return book
}

// Verifies that devices that are being reset are unhealthy from the next table on, and
// healthy again after the end, though nothing else has changed.
func TestResetsAreSeen(t *testing.T) {
	book, p, all := holding(t, keyA), manyPlan(t), many(3)
	judged := newJudge(t).Judge(all)
	table := func() []bool {
		var healthy []bool
		for _, u := range p.Mapper.Map(all, round.Verdicts{Health: judged, Resets: resetting(book.Resetting())}, nil).Resources[0].Units {
			healthy = append(healthy, u.Verdict.Healthy)
		}
		return healthy
	}
	before := table()
	end, _ := book.BeginReset([]inventory.Key{all.Backends[0].Devices[1].Key})
	during := table()
	end()
	if after := table(); !slices.Equal(before, []bool{true, true, true}) || !slices.Equal(during, []bool{true, false, true}) || !slices.Equal(after, before) {
		t.Errorf("healthy are before, during and after: %v, %v, %v", before, during, after)
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

// Verifies which groups are to be reset, and of what devices, against a look at all
// devices.
func TestWanted(t *testing.T) {
	some := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 4))
		p := manyPlan(t)
		p.Profile.Backends[0].Recovery.Reset = []config.ResetMode{config.ResetAuto, config.ResetAuto, config.ResetNever}[random.IntN(3)]
		all := many(8)
		backend := all.Backends[0]
		backend.Description.Reset = random.IntN(5) > 0
		for _, d := range backend.Devices {
			d.ResetGroup = []string{"", "g", "h"}[random.IntN(3)]
			if random.IntN(3) == 0 {
				d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: []inventory.Recovery{inventory.RecoverySelf, inventory.RecoveryReset}[random.IntN(2)]}
			}
		}
		judge := newJudge(t)
		judge.Judge(all)
		for i := range 3 { // what was reset, or was not listed for a moment
			all = flapped(all, random.IntN(8), i == 0)
		}
		judged := judge.Judge(all)
		v := round.New(round.Round{Profile: p.Profile, Snapshot: all, Health: judged, Table: &resource.Table{}})
		want := map[resetGroup][]inventory.Key{}
		for _, faulted := range all.Backends[0].Devices {
			if p.Profile.Backends[0].Recovery.Reset != config.ResetAuto || !backend.Description.Reset || faulted.Health.Recovered || !needsReset(v, faulted.Key) {
				continue
			}
			want[groupOf(faulted)] = nil
			for _, d := range all.Backends[0].Devices {
				if groupOf(d) == groupOf(faulted) {
					want[groupOf(faulted)] = append(want[groupOf(faulted)], d.Key)
				}
			}
		}
		got := map[resetGroup][]inventory.Key{}
		for group, need := range (&resets{}).wanted(v) {
			got[group] = need.members
			if need.since.IsZero() || need.delay < longestDelay {
				t.Errorf("seed %d: %v is wanted since %v, with a delay of %v", seed, group, need.since, need.delay)
			}
		}
		if !maps.EqualFunc(got, want, slices.Equal[[]inventory.Key]) {
			t.Fatalf("seed %d: wanted are %v, want %v", seed, got, want)
		}
		some += len(got)
	}
	if some < 50 {
		t.Errorf("only %d resets were wanted", some)
	}
}

// Verifies that what a pending reset would reach is given to no new container while it
// waits for one that holds a part of it, by the reset group, and again when it no longer
// waits: the fault is over, or a reset has failed.
func TestPendingResetIsGivenToNobodyNew(t *testing.T) {
	all := many(5)
	backend := all.Backends[0]
	backend.Description.Reset = true
	for i, group := range []string{"g", "g", "g", "", "h"} {
		backend.Devices[i].ResetGroup = group
	}
	backend.Devices[3].Parent = backend.Devices[0].ID
	backend.Devices[0].Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoveryReset}
	p, judge := manyPlan(t), newJudge(t)
	a := &Agent{book: holding(t, backend.Devices[1].Key), wake: make(chan struct{}, 1)}
	a.resets = newResets(a)
	run := func() string {
		judged := judge.Judge(all)
		table := p.Mapper.Map(all, round.Verdicts{Health: judged, Resets: a.resets.faults(judged)}, nil)
		v := round.New(round.Round{Profile: p.Profile, Snapshot: all, Health: judged, Table: table})
		a.resets.consider(t.Context(), v)
		codes := ""
		for _, u := range table.Resources[0].Units {
			code := "-"
			for _, fault := range u.Verdict.Faults {
				code = strings.TrimPrefix(fault.Code, "reset-")
			}
			codes += code + ","
		}
		return codes
	}
	check := func(what, want string) {
		t.Helper()
		if run(); len(a.wake) == 1 {
			<-a.wake
			if got := run(); got != want || len(a.wake) > 0 {
				t.Errorf("%s: the devices are %q, want %q; another round: %v", what, got, want, len(a.wake) > 0)
			}
		} else if got := run(); got != want {
			t.Errorf("%s: the devices are %q, want %q", what, got, want)
		}
	}
	// The partition has the fault of its parent.
	check("a reset waits", "x,pending,pending,x,-,")
	group := resetGroup{backend: "mock", name: "g"}
	if waits := a.resets.waiting()[group]; !strings.Contains(waits, "mock-1") {
		t.Errorf("status says %q", waits)
	}
	a.resets.attempts[group].failure = "it is broken"
	check("the last reset failed", "x,-,-,x,-,")
	a.resets.attempts[group].failure = ""
	check("a reset waits again", "x,pending,pending,x,-,")
	all = flapped(all, 0, false)
	check("the fault is over, but for its delay", "x,-,-,x,-,")
	if waits := a.resets.waiting()[group]; waits != "" {
		t.Errorf("status says %q though nothing waits", waits)
	}
}
