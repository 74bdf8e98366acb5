package nvidia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// prepareSettings say what is done before a container starts. By default nothing
// is, and devices do without the call.
//
// Of a device that another container holds, too, processes and memory are taken for
// that one's, and it is not reset.
type prepareSettings struct {
	// Check has the driver asked for faults right before the start.
	Check bool `json:"check"`
	// Leftovers is what becomes of processes on the device: ignore (default), report
	// in the log, or fail the start.
	Leftovers process.Leftovers `json:"leftovers"`
	// MaxMemoryUsedMiB fails the start if more of the device's memory is in use, such
	// as what was not cleared; 0: not looked at. The driver itself needs some.
	MaxMemoryUsedMiB uint64 `json:"maxMemoryUsedMiB"`
	// Reset resets the container's GPUs before it starts, where that reaches no
	// other device and no process uses them; elsewhere nothing is done.
	Reset bool `json:"reset"`
}

// check adds what is wrong with the settings.
func (p prepareSettings) check(at string, host sdk.HostPaths, errs *sdk.FieldErrors) {
	p.Leftovers.Check(at+".leftovers", host.Procfs, errs)
}

// wanted reports whether anything is to be done.
func (p prepareSettings) wanted() bool {
	return p.Check || p.Leftovers.Wanted() || p.MaxMemoryUsedMiB > 0 || p.Reset
}

// Prepare implements [sdk.Preparer]. A reset of other GPUs, during which the driver
// is closed, is waited for.
func (b *Backend) Prepare(ctx context.Context, wanted sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	t, err := b.findFree(ctx, wanted.IDs())
	if err != nil {
		return nil, err
	}
	if err := t.Missing(); err != nil {
		return nil, err
	}
	p := preparation{targets: t, b: b, settings: t.cfg.prepare, resource: wanted.Resource, shared: wanted.Shared()}
	for _, step := range []func(context.Context) error{p.leftovers, p.reset, p.check, p.memory} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// findFree is find, once no reset is on its way.
func (b *Backend) findFree(ctx context.Context, ids []string) (*targets, error) {
	for {
		t, err := b.find(ctx, ids)
		if err != nil || t.lent == nil {
			return t, err
		}
		select {
		case <-t.lent.over:
		case <-ctx.Done():
			return nil, fmt.Errorf("GPUs of this node are being reset, which has not come to its end: %w", ctx.Err())
		}
	}
}

// preparation is one call of Prepare.
type preparation struct {
	*targets
	b        *Backend
	settings prepareSettings
	resource string
	shared   []string
	seen     *found // by a look after a reset
}

// leftovers looks for processes that are on the devices before the container is. Those
// on a device that another container holds, too, are taken for that one's.
func (p *preparation) leftovers(ctx context.Context) error {
	setting := p.settings.Leftovers
	if !setting.Wanted() {
		return nil
	}
	for _, device := range p.devices {
		if slices.Contains(p.shared, device.id) {
			continue
		}
		pids, err := p.users(ctx, device)
		log := p.b.log.With("device", device.id, "resource", p.resource)
		if err := setting.Judge(log, p.cfg.host.Procfs, pids, err); err != nil {
			return fmt.Errorf("%s: %w", device.id, err)
		}
	}
	return nil
}

// reset resets the GPUs, if that concerns nobody else.
func (p *preparation) reset(ctx context.Context) error {
	if !p.settings.Reset {
		return nil
	}
	why := p.Alone()
	for _, device := range p.devices {
		if device.instance != nil {
			why = errors.New("a reset ends MIG devices")
		}
	}
	if len(p.shared) > 0 {
		why = fmt.Errorf("another container holds %s too", strings.Join(p.shared, ", "))
	}
	if why == nil {
		why = p.free(ctx, false)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("reset before the start: %w", ctx.Err())
	}
	if why != nil {
		p.b.log.Info("no reset before the container starts", "resource", p.resource, "gpus", p.uuids(), "reason", why)
		return nil
	}
	done, seen, err := p.b.reset(ctx, p.targets)
	if err != nil {
		return fmt.Errorf("reset before the start: %w", err)
	}
	p.seen = seen
	p.b.log.Info("GPUs were reset before a container starts", "resource", p.resource, "gpus", p.uuids(), "how", done)
	for _, device := range p.devices {
		if err := seen.sound(device.id); err != nil {
			return fmt.Errorf("%s after its reset: %w", device.id, err)
		}
	}
	return nil
}

// check looks at the GPUs once more.
func (p *preparation) check(ctx context.Context) error {
	if !p.settings.Check {
		return nil
	}
	if p.seen == nil {
		var err error
		if p.seen, err = p.b.lookNow(ctx); err != nil {
			return err
		}
	}
	if p.seen.away != nil {
		return p.seen.away
	}
	for _, device := range p.devices {
		h := p.seen.devices[device.id].GetHealth()
		if h.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
			return fmt.Errorf("%s: %s", device.id, wrong(h))
		}
		c := p.seen.gpus[device.gpu.UUID].Condition
		if c.ECCUncorrected == nil || *c.ECCUncorrected == 0 {
			continue
		}
		if c.Recovery == nil { // nobody says that they are over
			return fmt.Errorf("%s: GPU %s had %d uncorrectable memory errors since its driver was loaded: reset the GPU",
				device.id, device.gpu.UUID, *c.ECCUncorrected)
		}
		p.b.log.Warn("the GPU had uncorrectable memory errors; the driver says that it needs nothing",
			"device", device.id, "resource", p.resource, "errors", *c.ECCUncorrected)
	}
	return nil
}

// memory makes sure that the memory of devices that nobody else holds is free.
func (p *preparation) memory(ctx context.Context) error {
	limit := p.settings.MaxMemoryUsedMiB
	if limit == 0 {
		return nil
	}
	measured, err := p.driver.Telemetry(ctx)
	if err != nil {
		return fmt.Errorf("how much memory is in use is not known: %w", err)
	}
	used := map[string]uint64{}
	for _, m := range measured {
		for _, v := range m.Values {
			if v.Name == "memory_used_bytes" {
				used[m.GPU] = uint64(v.Value)
			}
		}
	}
	for _, device := range p.devices {
		if slices.Contains(p.shared, device.id) {
			continue
		}
		bytes, ok := used[device.id]
		if !ok {
			return fmt.Errorf("how much memory of %s is in use is not known", device.id)
		}
		if bytes > limit<<20 {
			return fmt.Errorf("%d MiB of the memory of %s are in use before the container starts, more than %d MiB (prepare.maxMemoryUsedMiB)",
				bytes>>20, device.id, limit)
		}
	}
	return nil
}
