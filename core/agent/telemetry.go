package agent

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/telemetry"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// sampled are the backends of the plan that can be measured now, with their
// intervals.
func sampled(current *config.Profile, statuses []supervisor.Status) map[string]time.Duration {
	targets := map[string]time.Duration{}
	for _, s := range statuses {
		b := current.Backend(s.Name)
		if b != nil && unsampled(b, s) == "" {
			targets[s.Name] = time.Duration(b.Telemetry.Interval)
		}
	}
	return targets
}

// unsampled says why a backend cannot be measured; "" if it can.
func unsampled(b *config.Backend, s supervisor.Status) string {
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

// sample is the supervisor's Sample, which there is only once all parts are open.
func (a *Agent) sample(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	return a.supervisor.Sample(ctx, backend, interval, take)
}

// owners tells who has a device by the newest round. A device that is only a
// parent has no holder of its own: its parts have.
func (a *Agent) owners() func(inventory.Key) (telemetry.Owner, bool) {
	v := a.view.Load()
	return func(key inventory.Key) (telemetry.Owner, bool) {
		if v.Device(key) == nil {
			return telemetry.Owner{}, v.IsParent(key)
		}
		owner := telemetry.Owner{Resource: v.ResourceOf(key)}
		if holder, ok := a.book.Sole(key); ok {
			owner.Namespace, owner.Pod, owner.Container = holder.Namespace, holder.Pod, holder.Container
		}
		return owner, true
	}
}

// reportTelemetry adds what is wrong with the telemetry of backends.
func (a *Agent) reportTelemetry(report *status.Report) {
	for _, p := range a.telemetry.Problems() {
		report.Problems = append(report.Problems, status.Problem{Backend: p.Backend, Message: p.Message})
	}
}

// Telemetry implements status.Source.
func (a *Agent) Telemetry(ctx context.Context) status.Telemetry {
	readings := a.telemetry.Read(ctx)
	v := a.view.Load()
	answer := status.Telemetry{Devices: []status.Measured{}, Missing: a.unmeasured()}
	place := map[inventory.Key]int{}
	v.Each(func(d *inventory.Device, _ health.Verdict) {
		place[d.Key] = len(answer.Devices)
		memory, _ := d.Capacities.Get("memory")
		answer.Devices = append(answer.Devices, status.Measured{
			Backend: d.Backend, ID: d.ID, Class: d.Class, Resource: v.ResourceOf(d.Key), Parent: d.Parent,
			Memory: memory, Holders: a.holders(d.Key),
		})
	})
	for _, r := range readings {
		i, listed := place[r.Device]
		if !listed {
			i = len(answer.Devices)
			answer.Devices = append(answer.Devices, status.Measured{Backend: r.Device.Backend, ID: r.Device.ID})
		}
		d := &answer.Devices[i]
		d.SampledAt = &r.At
		for _, value := range r.Values {
			d.Values = append(d.Values, status.Value(value))
		}
	}
	return answer
}

// unmeasured says by backend why there are no values.
func (a *Agent) unmeasured() map[string]string {
	missing := map[string]string{}
	statuses, current := a.statuses(), a.plans.InForce()
	for i := range current.Profile.Backends {
		b := &current.Profile.Backends[i]
		why := unsampled(b, statuses[b.Name])
		if why == "" {
			why = a.telemetry.Missing(b.Name)
		}
		if why != "" {
			missing[b.Name] = why
		}
	}
	return missing
}
