package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies which backends are measured, and what is reported of the others.
func TestFollow(t *testing.T) {
	sampled := supervisor.Status{State: supervisor.Running, Description: inventory.Description{Sample: true}}
	with := func(s supervisor.Status, name string, change func(*supervisor.Status)) supervisor.Status {
		s.Name = name
		change(&s)
		return s
	}
	statuses := []supervisor.Status{
		with(sampled, "on", func(*supervisor.Status) {}),
		with(sampled, "off", func(*supervisor.Status) {}),
		with(sampled, "down", func(s *supervisor.Status) { s.State = supervisor.Backoff }),
		with(sampled, "plain", func(s *supervisor.Status) { s.Description.Sample = false }),
		with(sampled, "other profile", func(*supervisor.Status) {}),
	}
	interval := config.TelemetryPolicy{Interval: config.Duration(time.Minute)}
	never := config.TelemetryPolicy{Sample: config.SampleNever}
	p := &config.Profile{Backends: []config.Backend{
		{Name: "on", Telemetry: interval}, {Name: "off", Telemetry: never}, {Name: "down"}, {Name: "plain"}, {Name: "not started"},
	}}
	telemetry := New(Options{})
	telemetry.Follow(p, statuses)
	if diff := cmp.Diff(map[string]time.Duration{"on": time.Minute}, telemetry.targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"on": "no sample has come yet", "off": "telemetry is switched off in the configuration (telemetry.sample)",
		"down": "the backend does not run", "not started": "the backend does not run", "plain": "the backend has no telemetry",
	}
	if diff := cmp.Diff(want, telemetry.Unmeasured()); diff != "" {
		t.Errorf("unmeasured (-want +got):\n%s", diff)
	}
}
