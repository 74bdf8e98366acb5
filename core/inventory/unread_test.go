package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unreadDevices are two cards, one of them with two partitions, at places of their own, with nothing in
// common.
func unreadDevices() []*backendv1.Device {
	var all []*backendv1.Device
	for i, id := range []string{"card0", "card1", "part0", "part1"} {
		d := wireDevice(id)
		d.ParentId, d.PciBusId = "", fmt.Sprintf("0000:0%d:00.0", i)
		if i > 1 {
			d.ParentId, d.PciBusId = "card1", ""
		}
		all = append(all, d)
	}
	return all
}

// unreadInv is an inventory with these devices of unreadDevices, by ID, and these entries.
func unreadInv(generation uint64, listed string, entries ...*backendv1.Unread) *backendv1.Inventory {
	w := inv(generation, slices.DeleteFunc(unreadDevices(), func(d *backendv1.Device) bool {
		return !slices.Contains(strings.Fields(listed), d.GetId())
	})...)
	w.Unread = entries
	return w
}

// unreads returns the devices, each with why it could not be looked at.
func unreads(b *Backend) string {
	var all []string
	for _, d := range b.Devices {
		text := d.ID
		if d.Health.Unread != "" {
			text += "!" + d.Health.Unread
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Verifies that devices which the backend could not look at stay as they were, and no others, until
// they are listed or gone.
func TestUnread(t *testing.T) {
	for name, tc := range map[string]struct {
		listed   string
		entries  []*backendv1.Unread
		want     string
		problems []string
	}{
		"nothing":              {"card0", nil, "card0", nil},
		"all":                  {"", []*backendv1.Unread{{Reason: "away"}}, "card0!away card1!away part0!away part1!away", nil},
		"all others":           {"card1", []*backendv1.Unread{{Reason: "away"}}, "card1 card0!away part0!away part1!away", nil},
		"by ID":                {"card1", []*backendv1.Unread{{DeviceId: "part1", Reason: "away"}}, "card1 part1!away", nil},
		"by place":             {"", []*backendv1.Unread{{PciBusId: "0000:00:00.0", Reason: "away"}}, "card0!away", nil},
		"partitions":           {"card0", []*backendv1.Unread{{PciBusId: "0000:01:00.0", Reason: "away"}}, "card0 card1!away part0!away part1!away", nil},
		"an unlisted parent's": {"card0", []*backendv1.Unread{{DeviceId: "card1", Reason: "away"}}, "card0 card1!away part0!away part1!away", nil},
		"own reason":           {"", []*backendv1.Unread{{Reason: "away"}, {DeviceId: "part0", Reason: "hot"}}, "card0!away card1!away part0!hot part1!away", nil},
		"listed":               {"card0", []*backendv1.Unread{{DeviceId: "card0", Reason: "away"}}, "card0", nil},
		"no reason":            {"", []*backendv1.Unread{{DeviceId: "card0"}}, "card0!the backend gives no reason", nil},
		"foreign": {"card0", []*backendv1.Unread{{DeviceId: "else", Reason: "away"}, {PciBusId: "0000:07:00.0", Reason: "cold"}}, "card0",
			[]string{"else could not be looked at, and was not known before: away", "0000:07:00.0 could not be looked at, and was not known before: cold"}},
		"malformed": {"card0", []*backendv1.Unread{{DeviceId: "../x", Reason: "away"}, {PciBusId: "7:0", Reason: "cold"}}, "card0",
			[]string{`the device "../x" at "" could not be looked at`, `the device "" at "7:0" could not be looked at`}},
		"too many": {"card0", slices.Repeat([]*backendv1.Unread{{DeviceId: "else", Reason: "away"}}, 10_000),
			"card0 card1!away part0!away part1!away", []string{"it names 10000 devices that it could not look at; more than 4096 count as all"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			before := mustReport(t, s, inv(1, unreadDevices()...)).Devices
			b := mustReport(t, s, unreadInv(2, tc.listed, tc.entries...))
			if got := unreads(b); got != tc.want {
				t.Errorf("listed are %s, want %s", got, tc.want)
			}
			if len(b.Problems) != len(tc.problems) {
				t.Errorf("the problems are %v, want %q", b.Problems, tc.problems)
			}
			for i, want := range tc.problems[:min(len(tc.problems), len(b.Problems))] {
				if !strings.Contains(b.Problems[i].Message, want) {
					t.Errorf("problem %d is %s, want %s", i, b.Problems[i].Message, want)
				}
			}
			for _, d := range b.Devices {
				i := slices.IndexFunc(before, func(o *Device) bool { return o.ID == d.ID })
				same := *before[i]
				if same.Health = d.Health; !equalDevice(d, &same) {
					t.Errorf("%s is %+v, and was %+v", d.ID, d, before[i])
				}
				if d.Health.Unread != "" && d.Health.State != StateUnknown {
					t.Errorf("the state of %s is %s", d.ID, d.Health.State)
				}
			}
			if got, want := unreads(mustReport(t, s, unreadInv(3, tc.listed))), tc.listed; got != want {
				t.Errorf("listed are %s, want %s once all was looked at", got, want)
			}
		})
	}
}

// Verifies that a device is unread since the first report that could not look at it, also with another reason
// and by another process, that the same again is no change, and that a check of the host's files keeps it.
func TestUnreadSince(t *testing.T) {
	s, c := newTestStore(t)
	mustReport(t, s, inv(1, unreadDevices()...))
	c.advance(time.Second)
	since := c.t
	first := mustReport(t, s, unreadInv(2, "card0", &backendv1.Unread{Reason: "away"}))
	before := s.Snapshot().Generation
	c.advance(time.Second)
	s.Restarted("mock")
	if again := mustReport(t, s, unreadInv(1, "card0", &backendv1.Unread{Reason: "away"})); s.Snapshot().Generation != before || again.Devices[1] != first.Devices[1] {
		t.Error("the same report is a change")
	}
	s.Recheck()
	s.Lost("mock")
	s.Restarted("mock")
	if b := mustReport(t, s, unreadInv(1, "", &backendv1.Unread{Reason: "paused"})); unreads(b) != "card0!paused card1!paused part0!paused part1!paused" || !b.LostAt.IsZero() {
		t.Errorf("of a backend that looks at nothing: %s, lost at %v", unreads(b), b.LostAt)
	}
	d := mustReport(t, s, unreadInv(2, "card0", &backendv1.Unread{Reason: "hot"})).Devices[1]
	if d.Health.Unread != "hot" || !d.Health.UnreadSince.Equal(since) {
		t.Errorf("it is unread since %v for %s, want %v", d.Health.UnreadSince, d.Health.Unread, since)
	}
	if s.Recheck(); unreads(s.Snapshot().Backends[0]) != "card0 card1!hot part0!hot part1!hot" {
		t.Errorf("after a check the devices are %s", unreads(s.Snapshot().Backends[0]))
	}
	if d := mustReport(t, s, inv(3, unreadDevices()...)).Devices[1]; d.Health.Unread != "" || !d.Health.UnreadSince.IsZero() {
		t.Errorf("listed again it is %+v", d.Health)
	}
}

// Verifies that the devices of an earlier run are listed as those of a lost backend once that cannot be started, whether that
// comes before or after the agent gets the state directory, since the first time; that a check of the host's files and another
// policy keep them; and that a report and the configuration end that.
func TestHeldOverFromAnEarlierRun(t *testing.T) {
	s, _ := newTestStore(t)
	known := mustReport(t, s, inv(1, unreadDevices()...))
	c := newClock()
	for _, late := range []bool{false, true} {
		s := NewStore(c.now)
		s.SetPolicies(map[string]Policy{"mock": {}})
		if !late {
			s.Restore([]*Backend{known})
		}
		s.Lost("mock")
		if late {
			if len(s.Snapshot().Backends) > 0 {
				t.Error("there are devices before they are known")
			}
			s.Restore([]*Backend{known})
		}
		since := c.now()
		c.advance(time.Second)
		s.Lost("mock")
		s.Recheck()
		s.SetPolicies(map[string]Policy{"mock": {AcceptDeclared: true}})
		if b := s.Snapshot().Backends[0]; unreads(b) != "card0 card1 part0 part1" || !b.HeldOver() || !b.LostAt.Equal(since) {
			t.Errorf("late %t: %s, lost at %s, received at %s", late, unreads(b), b.LostAt, b.ReceivedAt)
		}
		s.Describe("mock", known.Description)
		if b := mustReport(t, s, inv(1, unreadDevices()[:1]...)); unreads(b) != "card0" || !b.LostAt.IsZero() {
			t.Errorf("late %t, it reports: %s, lost at %s", late, unreads(b), b.LostAt)
		}
	}
	s = NewStore(nil)
	s.SetPolicies(map[string]Policy{"mock": {}})
	s.Restore([]*Backend{known})
	s.Lost("mock")
	s.SetPolicies(map[string]Policy{})
	if all := s.Snapshot().Backends; len(all) > 0 {
		t.Errorf("of a backend that is not configured any more: %s", unreads(all[0]))
	}
}

// Verifies that what an earlier run of the agent knew is kept from the first report on, whether that comes before
// or after the agent gets the state directory, with what the devices need, and that the configuration forgets it.
func TestUnreadRestored(t *testing.T) {
	s, _ := newTestStore(t)
	w := inv(1, unreadDevices()...)
	w.CounterSets = []*backendv1.CounterSet{{Name: "card1", Counters: map[string]int64{"slices": 7}}, {Name: "unused", Counters: map[string]int64{"slices": 7}}}
	w.Devices[2].Consumes = []*backendv1.CounterConsumption{{CounterSet: "card1", Counters: map[string]int64{"slices": 3}}}
	w.NodeLabels = []*backendv1.NodeLabel{{Name: "example.com/model", Value: "M1"}}
	known := mustReport(t, s, w)
	all := "card0!away card1!away part0!away part1!away"
	for _, late := range []bool{false, true} {
		s, _ := newTestStore(t)
		if !late {
			s.Restore([]*Backend{known})
		}
		if err := report(s, "mock", inv(0)); err == nil { // a refused report changes nothing
			t.Fatal("a report without a generation was accepted")
		}
		mustReport(t, s, unreadInv(1, "", &backendv1.Unread{Reason: "away"}))
		if late {
			woken(s)
			if s.Restore([]*Backend{known}); !woken(s) {
				t.Error("no change after the restore")
			}
		}
		b := s.Snapshot().Backends[0]
		if unreads(b) != all || len(b.CounterSets) != 1 || b.CounterSets[0].Name != "card1" || len(b.NodeLabels) != 1 {
			t.Errorf("late %t: kept are %s, sets %v, labels %v", late, unreads(b), b.CounterSets, b.NodeLabels)
		}
		if b = mustReport(t, s, unreadInv(2, "card0", &backendv1.Unread{DeviceId: "part0", Reason: "away"})); unreads(b) != "card0 part0!away" || len(b.NodeLabels) != 0 {
			t.Errorf("late %t: kept are %s, labels %v", late, unreads(b), b.NodeLabels)
		}
	}
	s, _ = newTestStore(t)
	s.Restore([]*Backend{known})
	s.SetPolicies(map[string]Policy{})
	s.SetPolicies(map[string]Policy{"mock": testPolicy})
	if b := mustReport(t, s, unreadInv(1, "", &backendv1.Unread{Reason: "away"})); len(b.Devices) > 0 {
		t.Errorf("a backend that was not configured meanwhile has %s", unreads(b))
	}
}

// Verifies that kept devices neither exceed the bounds nor contradict the listed ones, whatever those are.
func TestUnreadFits(t *testing.T) {
	all := &backendv1.Unread{Reason: "away"}
	s, _ := newTestStore(t)
	mustReport(t, s, inv(1, wireDevices(MaxDevices)...))
	more := inv(2, wireDevice("new"), wireDevice("gpu-0001"))
	more.Unread = []*backendv1.Unread{all}
	b := mustReport(t, s, more)
	if n := len(b.Devices); n != MaxDevices || b.Devices[0].ID != "new" || b.Devices[2].ID != "GPU-0000" || b.Devices[3].ID != "GPU-0002" {
		t.Errorf("%d devices: %.80s", n, ids(b.Devices))
	}

	s, _ = newTestStore(t)
	a, peer := wireDevice("a"), wireDevice("peer")
	a.ParentId, peer.ParentId = "b", ""
	a.Links = []*backendv1.Link{{PeerId: "peer", Kind: backendv1.LinkKind_LINK_KIND_NVLINK}}
	peer.Links = []*backendv1.Link{{PeerId: "a", Kind: backendv1.LinkKind_LINK_KIND_NVLINK}}
	mustReport(t, s, inv(1, a, peer))
	only := inv(2, peer)
	only.Unread = []*backendv1.Unread{{DeviceId: "a", Reason: "away"}}
	if b := mustReport(t, s, only); unreads(b) != "peer a!away" || len(b.Devices[0].Links) != 1 || len(b.Devices[1].Links) != 1 {
		t.Errorf("kept with links: %s", unreads(b))
	}
	cycle := inv(3, wireDevice("b"))
	cycle.Devices[0].ParentId, cycle.Unread = "a", []*backendv1.Unread{{DeviceId: "a", Reason: "away"}}
	if err := report(s, "mock", cycle); err == nil || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("a cycle of parents: %v, %s", err, unreads(s.Snapshot().Backends[0]))
	}

	s, _ = newTestStore(t)
	set := []*backendv1.CounterSet{{Name: "x", Counters: map[string]int64{"n": 1}}}
	taker := func(id string) *backendv1.Device {
		d := wireDevice(id)
		d.Consumes = []*backendv1.CounterConsumption{{CounterSet: "x", Counters: map[string]int64{"n": 1}}}
		return d
	}
	w := inv(1, taker("old"))
	w.CounterSets = set
	mustReport(t, s, w)
	w = inv(2, taker("new"))
	w.CounterSets, w.Unread = set, []*backendv1.Unread{all}
	if b := mustReport(t, s, w); unreads(b) != "new" || len(b.Problems) != 1 || b.Problems[0].Device != "old" {
		t.Errorf("what takes of a counter that another has: %s, %v", unreads(b), b.Problems)
	}
}
