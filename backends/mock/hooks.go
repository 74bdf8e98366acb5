package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// counts are the calls that a device has seen.
type counts struct{ prepares, releases, resets float64 }

// count adds a call to the count of a device.
func (b *Backend) count(id string, call counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts[id]
	b.counts[id] = counts{c.prepares + call.prepares, c.releases + call.releases, c.resets + call.resets}
}

// Prepare implements [sdk.Preparer]. Every call for a known device counts, also
// one that fails. One that fails leaves no partition that it made.
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (more map[string]*sdk.Edits, err error) {
	var made []*spec
	defer func() {
		for _, s := range made {
			if err != nil {
				err = errors.Join(err, b.unmake(s, p.Holder.ID))
			}
		}
	}()
	var params parameters
	if err := json.Unmarshal(p.Parameters, &params); err != nil {
		return nil, fmt.Errorf("prepare: %w: %w", sdk.ErrParameters, err)
	}
	v := b.now()
	more = map[string]*sdk.Edits{}
	for _, device := range p.Devices {
		id := device.ID
		s := v.byID[id]
		if s == nil {
			return nil, fmt.Errorf("prepare: there is no device %s", id)
		}
		b.count(id, counts{prepares: 1})
		noteCall(v.cfg.callLog, "prepare", p.Holder.ID, id)
		h := v.entry(s).Prepare
		if h == nil {
			h = s.group.Prepare
		}
		if h == nil {
			h = &prepare{}
		}
		edits, isNew, err := b.make(ctx, s, p.Holder.ID, h)
		if isNew {
			made = append(made, s)
		}
		if err != nil {
			return nil, err
		}
		if edits != nil {
			more[id] = edits
		}
		if h.Edits != nil {
			f := s.facts
			f.holder, f.parameters, f.amounts = p.Holder.ID, &params, amountsOf(s.group, device.Capacities)
			further, err := h.Edits.fill(f)
			if err != nil {
				return nil, fmt.Errorf("prepare %s: %w", id, err)
			}
			more[id] = joined(edits, further)
		}
		if share := shareEdits(s.facts, device.Capacities); share != nil {
			more[id] = joined(share, more[id])
		}
		if err := b.setMessage(device, params.Message, more); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", id, err)
		}
	}
	return more, nil
}

// messageVariable is the container's variable with the message.
const messageVariable = "ACCELMUX_MOCK_MESSAGE"

// setMessage gives the container the message that it requests. A device has one at a time, as an
// FPGA has one program: it stays while another container has the device, too.
func (b *Backend) setMessage(device sdk.HeldDevice, requested *string, more map[string]*sdk.Edits) error {
	var message string
	if requested != nil {
		message = *requested
	}
	id := device.ID
	b.mu.Lock()
	defer b.mu.Unlock()
	if !device.Shared {
		b.messages[id] = message
	}
	if requested == nil {
		return nil
	}
	if now := b.messages[id]; now != message {
		return fmt.Errorf("another container has the device with the message %q, so it cannot have %q", now, message)
	}
	if more[id] == nil {
		more[id] = &sdk.Edits{}
	}
	if more[id].Env == nil {
		more[id].Env = map[string]string{}
	}
	more[id].Env[messageVariable] = message
	return nil
}

// Release implements [sdk.Releaser].
func (b *Backend) Release(ctx context.Context, holder sdk.Holder, devices []sdk.HeldDevice) (map[string]error, error) {
	v := b.now()
	failed := map[string]error{}
	for _, device := range devices {
		id := device.ID
		s := v.byID[id]
		if s == nil {
			continue // gone, and nothing is left to clean up
		}
		b.count(id, counts{releases: 1})
		noteCall(v.cfg.callLog, "release", holder.ID, id)
		h := v.entry(s).Release
		if h == nil {
			h = s.group.Release
		}
		err := h.run(ctx, "release", id)
		if err == nil {
			err = b.unmake(s, holder.ID)
		}
		if err != nil {
			failed[id] = err
			continue
		}
		if !device.Shared {
			b.mu.Lock()
			delete(b.messages, id)
			b.mu.Unlock()
		}
	}
	return failed, nil
}

// run waits and fails as configured; nil does neither.
func (h *behaviour) run(ctx context.Context, call, id string) error {
	if h == nil {
		return nil
	}
	if h.Delay > 0 {
		slog.Info("the scenario delays a call", "call", call, "id", id, "delay", h.Delay)
	}
	if err := sleep(ctx, h.Delay); err != nil {
		return fmt.Errorf("%s %s: %w", call, id, err)
	}
	if h.Error != "" {
		return fmt.Errorf("%s %s: %w", call, id, errors.New(h.Error))
	}
	return nil
}

// Reset implements [sdk.Resetter].
func (b *Backend) Reset(ctx context.Context, devices []string) ([]*sdk.ResetResult, error) {
	v := b.now()
	var results []*sdk.ResetResult
	for _, id := range devices {
		s := v.byID[id]
		if s == nil {
			continue
		}
		b.count(id, counts{resets: 1})
		e := v.entry(s)
		r := resetBehaviour{}
		switch {
		case e.Reset != nil:
			r = *e.Reset
		case s.group.Reset != nil:
			r = *s.group.Reset
		}
		if err := sleep(ctx, r.Delay); err != nil {
			return nil, fmt.Errorf("reset %s: %w", id, err)
		}
		result := &sdk.ResetResult{DeviceId: id, Message: or(r.Message, "the device did not come back")}
		if r.Result != resetFailed {
			result = b.resetDone(id, e.Fault, r.Message)
		}
		noteCall(v.cfg.callLog, map[bool]string{true: "reset", false: "reset-failed"}[result.GetRecovered()], noHolder, id)
		results = append(results, result)
	}
	return results, nil
}

// resetDone clears a fault, if a reset can.
func (b *Backend) resetDone(id string, f *fault, message string) *sdk.ResetResult {
	if f == nil {
		return &sdk.ResetResult{DeviceId: id, Recovered: true, Message: or(message, "reset")}
	}
	if r, _ := recovery(f.Recovery); r > sdk.RecoveryReset {
		return &sdk.ResetResult{DeviceId: id, Message: fmt.Sprintf("a reset is not enough for %s: it needs a %s", f.Code, f.Recovery)}
	}
	b.mu.Lock()
	b.cleared[id] = *f
	b.version++
	b.out.Scan()
	b.mu.Unlock()
	return &sdk.ResetResult{DeviceId: id, Recovered: true, Message: or(message, "reset")}
}

// Sample implements [sdk.Sampler]: a load that comes and goes once a minute, the
// same for the same device and age of the process.
func (b *Backend) Sample(context.Context) ([]*sdk.Metric, error) {
	v := b.now()
	age := time.Since(b.started).Seconds()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*sdk.Metric
	for _, s := range v.specs {
		if v.entry(s).Unplugged {
			continue
		}
		id := s.device.GetId()
		const perMinute = 2 * math.Pi / 60
		phase := float64((uint64(s.facts.index)*2654435761)%360) * math.Pi / 180 //nolint:gosec // never negative
		load := (1 + math.Sin(age*perMinute+phase)) / 2
		out = append(out,
			sdk.Gauge(id, "temperature_celsius", 35+40*load),
			sdk.Gauge(id, "power_watts", 60+240*load),
			sdk.Gauge(id, "utilization_ratio", load),
			// The integral of power_watts over age.
			sdk.Counter(id, "energy_joules_total", 180*age+120/perMinute*(math.Cos(phase)-math.Cos(age*perMinute+phase))),
		)
		if memory := s.device.GetCapacities()["memory"]; memory > 0 {
			out = append(out, sdk.Gauge(id, "memory_used_bytes", math.Floor(float64(memory)*load)))
		}
		c := b.counts[id]
		out = append(out,
			sdk.Counter(id, "prepares_total", c.prepares),
			sdk.Counter(id, "releases_total", c.releases),
			sdk.Counter(id, "resets_total", c.resets),
		)
	}
	return out, nil
}

// sleep waits for d, or until ctx ends, which is an error.
func sleep(ctx context.Context, d sdk.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(time.Duration(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
