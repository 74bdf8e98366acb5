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
		waits    string // "" if the switch ends
	}{
		"all delivered":                 {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": settled}},
		"the new one starts":            {from: []string{"a"}, to: []string{"b"}, waits: "first inventory of backend b"},
		"the new one fails, one stops":  {from: []string{"a"}, to: []string{"b"}, statuses: map[string]supervisor.Status{"b": failed}, waits: "would stop backend a, but backend b does not run: it crashed"},
		"the new one fails, none stops": {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled, "b": failed}},
		"the new one is late":           {from: []string{"a"}, to: []string{"a", "b"}, statuses: map[string]supervisor.Status{"a": settled}, late: true},
		"one is late, one stops":        {from: []string{"a"}, to: []string{"b"}, late: true, waits: "has not started yet"},
		"new settings are on their way": {from: []string{"a"}, to: []string{"a"}, statuses: map[string]supervisor.Status{"a": {}}, waits: "backend a"},
		"only the resources changed":    {from: []string{"a"}, to: []string{"a"}, statuses: map[string]supervisor.Status{"a": settled}},
	} {
		t.Run(name, func(t *testing.T) {
			var p plans
			from, to := planOf(c.from...), planOf(c.to...)
			p.start(from)
			p.propose(to, time.Minute)
			now := time.Now()
			if c.late {
				now = now.Add(time.Hour)
			}
			current, switched, _ := p.advance(c.statuses, now)
			_, _, waits, _ := p.notes()
			if c.waits == "" && (!switched || current != to || waits != "") {
				t.Errorf("the switch waits: %q", waits)
			}
			if c.waits != "" && (switched || current != from || !strings.Contains(waits, c.waits)) {
				t.Errorf("switched %v, waits %q, want it to wait for %q", switched, waits, c.waits)
			}
		})
	}
}

// Verifies that while switching the backends of both plans run, and that a
// configuration taken back calls the switch off.
func TestSpecsWhileSwitching(t *testing.T) {
	var p plans
	p.start(planOf("a", "b"))
	p.propose(planOf("b", "c"), time.Minute)
	if got := names(p.specs()); got != "b c a" {
		t.Errorf("while switching %q run, want those of both plans", got)
	}
	p.propose(planOf("a", "b"), time.Minute)
	if got := names(p.specs()); got != "a b" {
		t.Errorf("after the switch was taken back %q run", got)
	}
}

func names(specs []supervisor.Spec) string {
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}
