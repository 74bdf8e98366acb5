package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/supervisor"
)

func planOf(backends ...string) *plan {
	profile := &config.Profile{Name: "p"}
	for _, name := range backends {
		profile.Backends = append(profile.Backends, config.Backend{Name: name})
	}
	return &plan{profile: profile}
}

// Verifies when a switch ends: at once if nothing new is to start or nothing old
// to stop for a backend that fails; else not before the new backends delivered.
func TestAdvance(t *testing.T) {
	settled, failed := supervisor.Status{Settled: true}, supervisor.Status{Failed: true, LastError: "it crashed"}
	for name, c := range map[string]struct {
		from, to []string
		statuses map[string]supervisor.Status
		late     bool
		settings string // the new ones of all backends
		waits    string // "" if the switch ends
	}{
		"all delivered":                 {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": settled}},
		"the new one starts":            {from: []string{"a"}, to: []string{"b"}, waits: "first inventory of backend b"},
		"the new one fails, one stops":  {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": failed}, waits: "would stop backend a, but backend b does not run: it crashed"},
		"the new one fails, none stops": {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled, "b": failed}},
		"the new one is late":           {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled}, late: true},
		"one is late, one stops":        {from: []string{"a"}, to: []string{"b"}, late: true, waits: "has not started yet"},
		"new settings are on their way": {from: []string{"a"}, to: []string{"a"}, settings: `{"n":1}`, statuses: map[string]supervisor.Status{"a": {}}, waits: "backend a to take on"},
		"new settings are refused":      {from: []string{"a"}, to: []string{"a"}, settings: `{"n":1}`, statuses: map[string]supervisor.Status{"a": failed}},
		"only the resources changed":    {from: []string{"a"}, to: []string{"a"}, statuses: map[string]supervisor.Status{"a": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			var p plans
			from, to := planOf(c.from...), planOf(c.to...)
			for i := range to.profile.Backends {
				to.profile.Backends[i].Settings = config.Settings(c.settings)
			}
			p.start(from)
			p.propose(to, time.Minute)
			now := time.Now()
			if c.late {
				now = now.Add(time.Hour)
			}
			for moved := true; moved; {
				moved, _ = p.advance(c.statuses, now)
			}
			current, _, waits, _ := p.notes()
			if c.waits == "" && (current != to || waits != "") {
				t.Errorf("the switch waits: %q", waits)
			}
			if c.waits != "" && (current != from || !strings.Contains(waits, c.waits)) {
				t.Errorf("switched %v, waits %q, want it to wait for %q", current == to, waits, c.waits)
			}
		})
	}
}

// Verifies that backends which both plans have get their new settings only when
// the new backends have delivered, that nothing is published meanwhile, and that
// one which never takes them on does not hold the node up.
func TestSettingsChangeLast(t *testing.T) {
	var p plans
	from, to := planOf("a"), planOf("a", "b")
	from.profile.Backends[0].Settings = config.Settings(`{"old":1}`)
	to.profile.Backends[0].Settings = config.Settings(`{"new":1}`)
	settings := func() string { return string(p.specs()[0].Settings) }
	p.start(from)
	p.propose(to, time.Minute)
	if settings() != `{"old":1}` || p.held() {
		t.Errorf("while b starts, a has %s, held %v; want the old settings and business as usual", settings(), p.held())
	}
	settled := supervisor.Status{Settled: true}
	now := time.Now()
	if moved, _ := p.advance(map[string]supervisor.Status{"a": settled, "b": settled}, now); !moved || settings() != `{"new":1}` || !p.held() {
		t.Errorf("when b has delivered, a has %s, held %v; want the new settings and a hold", settings(), p.held())
	}
	statuses := map[string]supervisor.Status{"a": {}, "b": settled}
	if moved, retry := p.advance(statuses, now); moved || retry.IsZero() {
		t.Errorf("moved %v, look again at %v, though a has not taken on its settings", moved, retry)
	}
	if moved, _ := p.advance(statuses, now.Add(reconfigureLimit)); !moved || p.inForce() != to || p.held() {
		t.Error("a backend that never takes on its settings holds the node up")
	}
}

// Verifies that while switching the backends of both plans run, and that a
// configuration taken back calls the switch off.
func TestSpecsWhileSwitching(t *testing.T) {
	var p plans
	p.start(planOf("a", "b"))
	p.propose(planOf("b", "c"), time.Minute)
	if got := names(p.specs()); got != "a b c" {
		t.Errorf("while switching %q run, want those of both plans", got)
	}
	p.propose(planOf("a", "b"), time.Minute)
	if got := names(p.specs()); got != "a b" {
		t.Errorf("after the switch was taken back %q run", got)
	}
}

// Verifies that a configuration which comes while backends take on the settings of
// another one waits for its turn: taking them back half-way would leave selectors
// and attributes that do not fit. Of several the newest is next.
func TestThirdConfigurationWaits(t *testing.T) {
	with := func(settings string, more ...string) *plan {
		made := planOf(append([]string{"a"}, more...)...)
		made.profile.Backends[0].Settings = config.Settings(settings)
		return made
	}
	var p plans
	second, fourth := with(`{"n":2}`), with(`{"n":4}`, "b")
	p.start(with(`{"n":1}`))
	p.propose(second, time.Minute)
	now, settled := time.Now(), supervisor.Status{Settled: true}
	if moved, _ := p.advance(nil, now); !moved || !p.held() {
		t.Fatal("the switch does not begin")
	}
	p.propose(with(`{"n":3}`), time.Minute)
	p.propose(fourth, time.Minute)
	if specs := p.specs(); len(specs) != 1 || string(specs[0].Settings) != `{"n":2}` || !p.held() {
		t.Errorf("%+v, held %v; want the second configuration's settings, held", specs, p.held())
	}
	if moved, _ := p.advance(map[string]supervisor.Status{"a": settled}, now); !moved || p.inForce() != second || p.held() {
		t.Error("the second configuration does not come in force, or is not published")
	}
	if got := names(p.specs()); got != "a b" {
		t.Errorf("%q run, want those of the second and the fourth configuration", got)
	}
	for moved := true; moved; {
		moved, _ = p.advance(map[string]supervisor.Status{"a": settled, "b": settled}, now)
	}
	if p.inForce() != fourth {
		t.Error("the newest configuration does not follow")
	}
}

func names(specs []supervisor.Spec) string {
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// Verifies that a choice of the same profile again only explains it anew, whatever
// stage a switch is in, and that the plan which is on its way counts, not the one
// in force.
func TestExplain(t *testing.T) {
	again := func(p *plan) *plan { return &plan{profile: p.profile, reason: "another label"} }
	first, second, third := planOf("a"), planOf("b"), planOf("c")
	var p plans
	p.start(first)
	if !p.explain(again(first)) || p.inForce().reason != "another label" || p.explain(again(second)) {
		t.Errorf("in force: the reason is %q", p.inForce().reason)
	}
	p.propose(second, time.Minute)
	if p.explain(again(first)) || !p.explain(again(second)) {
		t.Error("while switching, the plan in force counts")
	}
	if moved, _ := p.advance(map[string]supervisor.Status{"b": {Settled: true}}, time.Now()); !moved || !p.held() {
		t.Fatal("the second stage has not begun")
	}
	p.propose(third, time.Minute)
	if p.explain(again(second)) || !p.explain(again(third)) {
		t.Error("with a plan that waits for its turn, another one counts")
	}
}

// Verifies that the first profile does not wait for its backends where nothing ran
// before: nothing can be lost.
func TestFirstChoiceIsInForceAtOnce(t *testing.T) {
	var p plans
	p.start(&plan{profile: &config.Profile{}})
	to := planOf("a")
	p.propose(to, time.Minute)
	for moved := true; moved; {
		moved, _ = p.advance(nil, time.Now())
	}
	if p.inForce() != to {
		t.Errorf("not in force: %s", p.waits)
	}
}
