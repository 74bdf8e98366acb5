package telemetry

import (
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Follow applies the profile in force and the statuses of the backends: it decides which
// backends can be measured now, and at which interval. It returns at once.
func (t *Telemetry) Follow(p *config.Profile, statuses []supervisor.Status) {
	byName := map[string]supervisor.Status{}
	for _, s := range statuses {
		byName[s.Name] = s
	}
	targets, unsampled := map[string]time.Duration{}, map[string]string{}
	for i := range p.Backends {
		b := &p.Backends[i]
		if why := notSampled(b, byName[b.Name]); why != "" {
			unsampled[b.Name] = why
			continue
		}
		targets[b.Name] = time.Duration(b.Telemetry.Interval)
	}
	t.Apply(targets)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsampled = unsampled
}

// notSampled returns why a backend cannot be measured; "" if it can.
func notSampled(b *config.Backend, s supervisor.Status) string {
	switch {
	case b.Telemetry.Sample == config.SampleNever:
		return "telemetry is switched off in the configuration (telemetry.sample)"
	case s.State != supervisor.Running:
		return "the backend does not run"
	case !s.Description.Sample:
		return "the backend has no telemetry"
	}
	return ""
}

// Unmeasured returns why there are no values, by backend of the profile.
func (t *Telemetry) Unmeasured() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	unmeasured := map[string]string{}
	for name, why := range t.unsampled {
		unmeasured[name] = why
	}
	for name := range t.targets {
		if why := t.missing(name); why != "" {
			unmeasured[name] = why
		}
	}
	return unmeasured
}

// OwnersOf returns who has a device by a round. A device that is only a parent has no holder
// of its own: its parts have. ownerOf is [holders.Book.OwnerOf].
func OwnersOf(r *round.Round, ownerOf func(inventory.Key) holders.Owner) func(inventory.Key) (Owner, bool) {
	return func(key inventory.Key) (Owner, bool) {
		if r.Device(key) == nil {
			return Owner{}, r.IsParent(key)
		}
		return Owner{Resource: r.ResourceOf(key), Owner: ownerOf(key)}, true
	}
}
