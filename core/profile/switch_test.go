package profile

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
)

// fakeBackends is a supervisor that runs nothing.
type fakeBackends struct {
	statuses map[string]supervisor.Status
	specs    []supervisor.Spec
	policies map[string]inventory.Policy
}

func (f *fakeBackends) status() []supervisor.Status {
	var all []supervisor.Status
	for name, s := range f.statuses {
		s.Name = name
		all = append(all, s)
	}
	return all
}

func (f *fakeBackends) names() string {
	var all []string
	for _, s := range f.specs {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// settings are those of the first backend.
func (f *fakeBackends) settings() string { return string(f.specs[0].Settings) }

// switchFrom is a switch with this plan in force.
func switchFrom(t *testing.T, first *Plan) (*Switch, *fakeBackends) {
	t.Helper()
	f := &fakeBackends{statuses: map[string]supervisor.Status{}}
	s := &Switch{
		opts: SwitchOptions{
			Limit: time.Minute, Statuses: f.status, Wake: func() {}, Memory: OpenMemory(MemoryOptions{Path: t.TempDir() + "/profile", Log: slog.New(slog.DiscardHandler)}),
			Apply: func(specs []supervisor.Spec, policies map[string]inventory.Policy) {
				f.specs, f.policies = specs, policies
			},
		},
		log: slog.New(slog.DiscardHandler), current: first,
	}
	s.Apply()
	return s, f
}

func planOf(t *testing.T, backends ...string) *Plan {
	t.Helper()
	profile := &config.Profile{Name: "p"}
	for _, name := range backends {
		profile.Backends = append(profile.Backends, config.Backend{Name: name})
	}
	mapper, err := resource.Compile(profile)
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{Profile: profile, Mapper: mapper}
}

// planWith is a plan of backend a with these settings, and of more backends.
func planWith(t *testing.T, settings string, more ...string) *Plan {
	t.Helper()
	p := planOf(t, append([]string{"a"}, more...)...)
	p.Profile.Backends[0].Settings = config.Settings(settings)
	return p
}

var settled = supervisor.Status{Applied: true}

// Verifies when a switch ends: at once if nothing new is to start or nothing old to stop
// for a backend that fails; else not before the new backends have reported.
func TestAdvance(t *testing.T) {
	failed := supervisor.Status{Failed: true, LastError: "it crashed"}
	for name, c := range map[string]struct {
		from, to []string
		statuses map[string]supervisor.Status
		late     bool
		settings string // the new ones of all backends
		waits    string // "" if the switch ends
	}{
		"all have reported":            {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": settled}},
		"the new one starts":           {from: []string{"a"}, to: []string{"b"}, waits: "first inventory of backend b"},
		"the new one fails, one stops": {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": failed}, waits: "would stop backend a, but backend b does not run: it crashed"},
		"the new one fails, the old one is gone": {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{
			"a": {Failed: true, State: supervisor.Unavailable}, "b": failed,
		}},
		"the new one fails, none stops": {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled, "b": failed}},
		"the new one is late":           {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled}, late: true},
		"one is late, one stops":        {from: []string{"a"}, to: []string{"b"}, late: true, waits: "has not started yet"},
		"new settings are not applied":  {from: []string{"a"}, to: []string{"a"}, settings: `{"n":1}`, statuses: map[string]supervisor.Status{"a": {}}, waits: "backend a to apply"},
		"new settings are refused":      {from: []string{"a"}, to: []string{"a"}, settings: `{"n":1}`, statuses: map[string]supervisor.Status{"a": failed}},
		"nothing ran before":            {to: []string{"a"}}, // and so nothing can be lost
		"only the resources changed":    {from: []string{"a"}, to: []string{"a"}, statuses: map[string]supervisor.Status{"a": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := planOf(t, c.from...), planOf(t, c.to...)
			for i := range to.Profile.Backends {
				to.Profile.Backends[i].Settings = config.Settings(c.settings)
			}
			s, f := switchFrom(t, from)
			f.statuses = c.statuses
			now := time.Now()
			s.propose(to, now)
			if c.late {
				now = now.Add(time.Hour)
			}
			changed, _ := s.Advance(now)
			waits := s.Status().Waits
			if c.waits == "" && (!changed || s.InForce() != to || waits != "") {
				t.Errorf("the switch waits: %q", waits)
			}
			if c.waits != "" && (changed || s.InForce() != from || !strings.Contains(waits, c.waits)) {
				t.Errorf("switched %v, waits %q, want it to wait for %q", changed, waits, c.waits)
			}
		})
	}
}

// Verifies that backends of both plans get their new settings only when the new backends
// have reported, that those are the ones which are reconfigured, and that one which never applies them
// ends nothing but the wait.
func TestSettingsChangeLast(t *testing.T) {
	from, to := planWith(t, `{"old":1}`), planWith(t, `{"new":1}`, "b")
	s, f := switchFrom(t, from)
	now := time.Now()
	s.propose(to, now)
	if s.Advance(now); f.settings() != `{"old":1}` || len(s.Reconfigured()) > 0 {
		t.Errorf("while b starts, a has %s, reconfiguring %v; want the old settings", f.settings(), s.Reconfigured())
	}
	f.statuses = map[string]supervisor.Status{"a": {}, "b": settled}
	if changed, retry := s.Advance(now); changed || retry.IsZero() || f.settings() != `{"new":1}` || !maps.Equal(s.Reconfigured(), map[string]bool{"a": true}) {
		t.Errorf("when b has reported, a has %s, reconfiguring %v, in force %v, the next call is due at %v", f.settings(), s.Reconfigured(), changed, retry)
	}
	if changed, _ := s.Advance(now.Add(reconfigureLimit)); !changed || s.InForce() != to || s.Reconfigured() != nil {
		t.Error("a backend that never applies its settings holds the switch up")
	}
}

// Verifies that a backend counts as reconfigured if it has other settings, or if its container edits may contain
// something else.
func TestReconfigured(t *testing.T) {
	from, to := planOf(t, "settings", "edits", "same", "old"), planOf(t, "settings", "edits", "same", "new")
	to.Profile.Backends[0].Settings = config.Settings(`{"n":1}`)
	to.Profile.Backends[1].Allow.Env = []string{"A"}
	s, f := switchFrom(t, from)
	f.statuses = map[string]supervisor.Status{"new": settled}
	s.propose(to, time.Now())
	if s.Advance(time.Now()); !maps.Equal(s.Reconfigured(), map[string]bool{"settings": true, "edits": true}) {
		t.Errorf("reconfigured are %v", s.Reconfigured())
	}
}

// Verifies that while switching the backends of both plans run, each with a policy, and that
// a configuration taken back ends the switch.
func TestSpecsWhileSwitching(t *testing.T) {
	s, f := switchFrom(t, planOf(t, "a", "b"))
	s.propose(planOf(t, "b", "c"), time.Now())
	if got := f.names(); got != "a b c" || len(f.policies) != 3 {
		t.Errorf("while switching %q run, with %d policies; want those of both plans", got, len(f.policies))
	}
	s.propose(planOf(t, "a", "b"), time.Now())
	if got := f.names(); got != "a b" || len(f.policies) != 2 {
		t.Errorf("after the switch was taken back %q run, with %d policies", got, len(f.policies))
	}
}

// Verifies that a configuration which comes while backends are reconfigured is queued:
// taking their settings back half-way would leave selectors and attributes that do not fit.
// Of several the newest is next.
func TestThirdConfigurationWaits(t *testing.T) {
	second, fourth := planWith(t, `{"n":2}`), planWith(t, `{"n":4}`, "b")
	s, f := switchFrom(t, planWith(t, `{"n":1}`))
	now := time.Now()
	s.propose(second, now)
	if changed, _ := s.Advance(now); changed || !s.Reconfigured()["a"] {
		t.Fatal("the switch does not begin")
	}
	s.propose(planWith(t, `{"n":3}`), now)
	s.propose(fourth, now)
	if f.names() != "a" || f.settings() != `{"n":2}` || !s.Reconfigured()["a"] {
		t.Errorf("%+v, reconfiguring %v; want the second configuration's settings", f.specs, s.Reconfigured())
	}
	f.statuses = map[string]supervisor.Status{"a": settled}
	if changed, _ := s.Advance(now); !changed || s.InForce() != second || s.Reconfigured() != nil {
		t.Error("the second configuration does not come in force, or is not published")
	}
	if got := f.names(); got != "a b" {
		t.Errorf("%q run, want those of the second and the fourth configuration", got)
	}
	f.statuses = map[string]supervisor.Status{"a": settled, "b": settled}
	if changed, _ := s.Advance(now); !changed || s.InForce() != fourth {
		t.Error("the newest configuration does not follow")
	}
}

// Verifies that a choice of the same profile only changes its reason, in every stage, and
// that the plan which is on its way counts, not the one in force.
func TestExplain(t *testing.T) {
	again := func(p *Plan) *Plan { return &Plan{Profile: p.Profile, reason: "another label"} }
	first, second, third := planOf(t, "a"), planWith(t, `{"n":2}`), planOf(t, "c")
	s, f := switchFrom(t, first)
	if !s.explain(again(first)) || s.Status().Reason != "another label" || s.explain(again(second)) {
		t.Errorf("in force: the reason is %q", s.Status().Reason)
	}
	now := time.Now()
	s.propose(second, now)
	if s.explain(again(first)) || !s.explain(again(second)) {
		t.Error("while switching, the plan in force counts")
	}
	f.statuses = map[string]supervisor.Status{"a": {}}
	if s.Advance(now); !s.Reconfigured()["a"] {
		t.Fatal("the second stage has not begun")
	}
	s.propose(third, now)
	if s.explain(again(second)) || !s.explain(again(third)) {
		t.Error("with a plan that is queued, another one counts")
	}
}

// Verifies what is reported where no profile can be chosen or none is for this node, before
// and after one was in force.
func TestStatusWithoutChoice(t *testing.T) {
	for name, c := range map[string]struct {
		backends          []string
		err               error
		unchosen, problem bool
		missing           bool
	}{
		"none is for this node":           {err: ErrNone},
		"none any longer":                 {backends: []string{"a"}, err: ErrNone, unchosen: true, problem: true},
		"two match":                       {err: errors.New("two match"), unchosen: true, problem: true, missing: true},
		"two match, and one is in force":  {backends: []string{"a"}, err: errors.New("two match"), unchosen: true, problem: true},
		"one is chosen, and not in force": {missing: true},
		"one is in force":                 {backends: []string{"a"}},
	} {
		s, _ := switchFrom(t, planOf(t, c.backends...))
		if c.err != nil {
			s.refuseChoice(c.err)
		}
		got := s.Status()
		if got.Unchosen != "" != c.unchosen || len(got.Problems) > 0 != c.problem || len(got.Missing) > 0 != c.missing {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
