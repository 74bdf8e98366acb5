package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestReportRefused(t *testing.T) {
	bad := wireDevice("a")
	bad.Class = "x"
	for name, tc := range map[string]struct {
		backend string
		wire    *backendv1.Inventory
		want    string
	}{
		"not described": {"other", inv(3), "was not described"},
		"nil":           {"mock", nil, "it is missing"},
		"no generation": {"mock", inv(0), "generation 0 does not follow 2"},
		"same":          {"mock", inv(2), "generation 2 does not follow 2"},
		"older":         {"mock", inv(1), "generation 1 does not follow 2"},
		"too many":      {"mock", inv(3, make([]*backendv1.Device, MaxDevices+1)...), fmt.Sprintf("lists %d devices; at most", MaxDevices+1)},
		"garbage":       {"mock", inv(3, bad, nil), `none of its 2 devices is valid; the first, a: device 1 of the report is left out: class "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			mustReport(t, s, inv(2, wireDevice("good")))
			before := s.Snapshot()
			woken(s)
			err := report(s, tc.backend, tc.wire)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), fmt.Sprintf("%q refused", tc.backend)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			if s.Snapshot() != before || woken(s) {
				t.Error("a refused report changed the snapshot")
			}
			mustReport(t, s, inv(3)) // and the next good one is taken
		})
	}
}

func TestEqualReportIsNoChange(t *testing.T) {
	s, c := newTestStore(t)
	first := mustReport(t, s, inv(1, wireDevice("a"), wireDevice("b")))
	before := s.Snapshot()
	if !woken(s) {
		t.Error("the first report does not wake")
	}
	c.advance(time.Second)
	second := mustReport(t, s, inv(2, wireDevice("a"), wireDevice("b")))
	if s.Snapshot().Generation != before.Generation || woken(s) {
		t.Error("an equal report counts as a change")
	}
	if !second.ReceivedAt.Equal(c.t) || second.Generation != 2 {
		t.Errorf("received at %v with generation %d", second.ReceivedAt, second.Generation)
	}
	changed := wireDevice("b")
	changed.Capacities["memory"]++
	third := mustReport(t, s, inv(3, wireDevice("a"), changed))
	if third.Devices[0] != first.Devices[0] {
		t.Error("an equal device is not the same one")
	}
	if third.Devices[1] == first.Devices[1] || first.Devices[1].Capacities[0].Value != 1<<30 {
		t.Error("a device was changed in place")
	}
	if s.Snapshot().Generation != before.Generation+1 || !woken(s) {
		t.Error("a change does not count as one")
	}
	w := inv(4, wireDevice("a"), changed)
	w.Problems = []string{"a card is missing"}
	if mustReport(t, s, w); s.Snapshot().Generation != before.Generation+2 {
		t.Error("a new problem does not count as a change")
	}
	moved := mustReport(t, s, inv(5, changed, wireDevice("a")))
	if moved.Devices[0] != third.Devices[1] || moved.Devices[1] != first.Devices[0] || s.Snapshot().Generation != before.Generation+3 {
		t.Error("in another order the devices are not the same ones, or that is no change")
	}
}

func TestLostRestartedBack(t *testing.T) {
	s, c := newTestStore(t)
	s.Lost("mock") // nothing was reported yet
	s.Lost("other")
	s.Restarted("other")
	s.Remove("other")
	if len(s.Snapshot().Backends) != 0 {
		t.Fatal("a backend without inventory is listed")
	}
	first := mustReport(t, s, inv(7, wireDevice("a")))
	woken(s)
	c.advance(time.Second)
	s.Lost("mock")
	lostAt := c.t
	c.advance(time.Second)
	s.Lost("mock")
	b := s.Snapshot().Backends[0]
	if !woken(s) || !b.LostAt.Equal(lostAt) || len(b.Devices) != 1 {
		t.Errorf("after Lost: %+v", b)
	}
	s.Restarted("mock")
	before := s.Snapshot().Generation
	b = mustReport(t, s, inv(1, wireDevice("a")))
	if !b.LostAt.IsZero() || b.Generation != 2 || s.Snapshot().Generation != before+1 || !woken(s) {
		t.Errorf("after the restart: %+v", b)
	}
	if b.Devices[0] != first.Devices[0] {
		t.Error("an equal device is not the same one over a restart")
	}
}

func TestRemove(t *testing.T) {
	s, _ := newTestStore(t)
	describe(s, "another", testDesc, testPolicy)
	if err := report(s, "another", inv(1, wireDevice("a"))); err != nil {
		t.Fatal(err)
	}
	mustReport(t, s, inv(1, wireDevice("a")))
	if err := report(s, "mock", inv(5, wireDevice("a"))); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot().Backends; len(got) != 2 || got[0].Name != "another" || got[1].Name != "mock" {
		t.Fatalf("backends are %+v", got)
	}
	woken(s)
	s.Remove("mock")
	s.Remove("mock")
	if got := s.Snapshot().Backends; len(got) != 1 || got[0].Name != "another" || !woken(s) {
		t.Errorf("backends are %+v", got)
	}
	if report(s, "mock", inv(6)) == nil {
		t.Error("a removed backend may report")
	}
	describe(s, "mock", testDesc, testPolicy)
	if err := report(s, "mock", inv(1, wireDevice("a"))); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot().Backends[1].Generation; got != 3 {
		t.Errorf("generation is %d after coming back, want 3: it must not go back", got)
	}
}

// Verifies that a policy applies at once, and a description with the next report.
func TestDescribeAgain(t *testing.T) {
	s, _ := newTestStore(t)
	mounts := wireDevice("mounts")
	plain := wireDevice("plain")
	plain.Edits.Mounts = nil
	mustReport(t, s, inv(1, mounts, plain))
	before := s.Snapshot().Generation
	describe(s, "mock", testDesc, testPolicy)
	if s.Snapshot().Generation != before {
		t.Error("the same description counts as a change")
	}
	tight := testPolicy
	tight.Allowed.Mounts = nil
	describe(s, "mock", testDesc, tight)
	b := s.Snapshot().Backends[0]
	if ids(b.Devices) != "plain" || len(b.Problems) != 1 {
		t.Errorf("after a tighter policy: %s, %+v", ids(b.Devices), b.Problems)
	}
	describe(s, "mock", testDesc, testPolicy)
	if b = s.Snapshot().Backends[0]; ids(b.Devices) != "mounts plain" || len(b.Problems) != 0 {
		t.Errorf("after the wider policy: %s, %+v", ids(b.Devices), b.Problems)
	}
	newer := Description{Name: "mock", Version: "2.0.0", Classes: []string{"npu"}}
	describe(s, "mock", newer, testPolicy)
	if b = s.Snapshot().Backends[0]; ids(b.Devices) != "mounts plain" || b.Description.Version != "2.0.0" {
		t.Errorf("after the new version: %s, %+v", ids(b.Devices), b.Description)
	}
	if err := report(s, "mock", inv(2, plain)); err == nil {
		t.Error("a class that is described no more is taken")
	}
}

// Verifies that reports of health that consumers might skip are in Superseded.
func TestSuperseded(t *testing.T) {
	s, c := newTestStore(t)
	at := func(generation uint64, h *backendv1.Health, ids ...string) *Backend {
		var devices []*backendv1.Device
		for _, id := range ids {
			d := wireDevice(id)
			d.Health = h
			devices = append(devices, d)
		}
		return mustReport(t, s, inv(generation, devices...))
	}
	const unhealthy, healthy = backendv1.HealthState_HEALTH_STATE_UNHEALTHY, backendv1.HealthState_HEALTH_STATE_HEALTHY
	fault := &backendv1.Health{State: unhealthy, Code: "c", Recovery: backendv1.Recovery_RECOVERY_RESET}
	words := &backendv1.Health{State: unhealthy, Code: "c", Recovery: backendv1.Recovery_RECOVERY_RESET, Message: "hot"}
	at(1, nil, "a")
	if b := at(2, fault, "a"); len(b.Superseded) != 0 {
		t.Errorf("unknown was worth keeping: %+v", b.Superseded)
	}
	if b := at(3, words, "a"); len(b.Superseded) != 0 {
		t.Errorf("words were worth keeping: %+v", b.Superseded)
	}
	b := at(4, &backendv1.Health{State: healthy, Recovered: true}, "a")
	if len(b.Superseded) != 1 || b.Superseded[0].Health.Code != "c" || b.Superseded[0].Generation != 4 {
		t.Errorf("superseded: %+v", b.Superseded)
	}
	c.advance(40 * time.Second)
	if b = at(5, nil); len(b.Superseded) != 2 || !b.Superseded[1].Health.Recovered || b.Superseded[1].ID != "a" {
		t.Errorf("superseded by absence: %+v", b.Superseded)
	}
	c.advance(40 * time.Second)
	if b = at(6, nil); len(b.Superseded) != 1 {
		t.Errorf("a minute later: %+v", b.Superseded)
	}
	// The statements of a backend that flaps are bounded.
	var many []string
	const limit = 500
	s.statements = limit
	for i := range 300 {
		many = append(many, fmt.Sprintf("d%d", i))
	}
	for g := range uint64(5) {
		if b = at(7+g, []*backendv1.Health{fault, {State: healthy}}[g%2], many...); len(b.Superseded) > limit {
			t.Fatalf("%d statements are kept", len(b.Superseded))
		}
	}
	if len(b.Superseded) != limit || b.Superseded[limit-1].Generation != 11 {
		t.Errorf("%d statements are kept, and not the newest", len(b.Superseded))
	}
}

// Verifies that a backend without a policy is removed when it is lost, and one that is lost
// already at once; one with a policy stays.
func TestLostWithoutPolicy(t *testing.T) {
	for name, lostFirst := range map[string]bool{"lost first": true, "lost later": false} {
		s, _ := newTestStore(t)
		mustReport(t, s, inv(1, wireDevice("a")))
		if lostFirst {
			s.Lost("mock")
		}
		if got := s.Snapshot().Backends; len(got) != 1 {
			t.Fatalf("%s: backends are %+v, want the lost one", name, got)
		}
		s.SetPolicies(nil)
		if !lostFirst {
			if got := s.Snapshot().Backends; len(got) != 1 {
				t.Fatalf("%s: backends are %+v, want the one that still reports", name, got)
			}
			s.Lost("mock")
		}
		if got := s.Snapshot().Backends; len(got) != 0 {
			t.Errorf("%s: backends are %+v, want none", name, got)
		}
	}
}
