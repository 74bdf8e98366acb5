package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Prepare implements [sdk.Preparer]. It waits for the end of a reset, even of other GPUs.
func (b *Backend) Prepare(ctx context.Context, wanted sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	p, err := parametersOf(wanted.Parameters)
	if err != nil {
		return nil, err
	}
	t, err := b.Held(ctx, wanted)
	if err != nil {
		return nil, err
	}
	cfg := b.config()
	if err := cfg.canSlice(p, t.Devices); err != nil {
		return nil, err
	}
	var parts []engine.Target
	t.Devices = slices.DeleteFunc(t.Devices, func(t engine.Target) bool {
		isPart := partitionOf(t.Device) != nil
		if isPart {
			parts = append(parts, t)
		}
		return isPart
	})
	if cfg.prepare.wanted() && len(t.Devices) > 0 {
		steps := preparation{Targets: t, b: b, gpus: source{b, cfg}, resource: wanted.Resource, shared: wanted.Shared()}
		if err := steps.steps(ctx); err != nil {
			return nil, err
		}
	}
	shares := map[string]*sdk.Edits{}
	if err := cfg.sharing(b.mps).limits(wanted.Devices, t.Devices, shares); err != nil {
		return nil, err
	}
	if err := b.slice(ctx, cfg, wanted.Holder.ID, p.TimeSlice, t.Devices); err != nil {
		return nil, err
	}
	edits, err := b.makeAll(ctx, cfg, wanted.Holder.ID, parts)
	maps.Copy(shares, edits)
	return shares, err
}

// steps are those of the settings.
func (p *preparation) steps(ctx context.Context) error {
	if err := p.alone(ctx, p.scan, p.leftovers); err != nil {
		return err
	}
	if err := p.reset(ctx); err != nil {
		return err
	}
	return p.alone(ctx, p.check, p.memory)
}

// alone runs steps while no GPU is reset, because the driver is closed during a reset.
func (p *preparation) alone(ctx context.Context, steps ...func(context.Context) error) error {
	var gpus []string
	for _, t := range p.Devices {
		gpus = append(gpus, t.Unit.ID)
	}
	leave, err := p.b.Enter(ctx, gpus...)
	if err != nil {
		return err
	}
	defer leave()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scan scans the GPUs: a reset may have closed the driver.
func (p *preparation) scan(ctx context.Context) (err error) {
	p.seen, err = p.b.Scan(ctx, false, p.ids()...)
	return err
}

// preparation is one call of Prepare.
type preparation struct {
	*engine.Targets
	b        *Backend
	gpus     source
	resource string
	shared   []string
	seen     engine.Seen // by the last scan
}

// leftovers searches processes on the devices before the container starts. It skips devices
// that another container has allocated, too.
func (p *preparation) leftovers(ctx context.Context) error {
	setting := p.gpus.cfg.prepare.Leftovers
	if !setting.Wanted() {
		return nil
	}
	for _, t := range p.Devices {
		id := t.Device.ID
		if t.Shared {
			continue
		}
		pids, err := p.gpus.users(ctx, t.Unit.ID, instanceOf(t.Device))
		log := p.b.log.With("device", id, "resource", p.resource)
		if err := setting.Judge(log, process.Named(p.gpus.cfg.host.Procfs, pids...), err); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// reset resets the GPUs, if that affects no other container.
func (p *preparation) reset(ctx context.Context) error {
	if !p.gpus.cfg.prepare.Reset {
		return nil
	}
	why := p.Alone()
	for _, t := range p.Devices {
		if instanceOf(t.Device) != nil {
			why = errors.New("a reset ends MIG devices")
		} else if why == nil {
			why = p.gpus.freeBoard(ctx, t)
		}
	}
	if len(p.shared) > 0 {
		why = fmt.Errorf("another container holds %s too", strings.Join(p.shared, ", "))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("reset before the start: %w", ctx.Err())
	}
	log := p.b.log.With("resource", p.resource, "devices", p.ids())
	if why != nil {
		log.Info("no reset before the container starts", "reason", why)
		return nil
	}
	done, seen, err := p.b.ResetTargets(ctx, p.Devices)
	if err != nil {
		return fmt.Errorf("reset before the start: %w", err)
	}
	p.seen = seen
	log.Info("GPUs were reset before a container starts", "how", done)
	for _, id := range p.ids() {
		if err := seen.Healthy(id, true); err != nil {
			return fmt.Errorf("%s after its reset: %w", id, err)
		}
	}
	return nil
}

func (p *preparation) ids() []string {
	var all []string
	for _, t := range p.Devices {
		all = append(all, t.Device.ID)
	}
	return all
}

// check returns an error unless the scan found the devices healthy.
func (p *preparation) check(context.Context) error {
	if !p.gpus.cfg.prepare.Check {
		return nil
	}
	for _, id := range p.ids() {
		if err := p.seen.Healthy(id, false); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		gpu := readingOf(p.seen.Targets[id].Unit).GPU
		c := gpu.Condition
		if c.ECCUncorrected == nil || *c.ECCUncorrected == 0 {
			continue
		}
		if c.Recovery == nil { // the driver does not report whether they are cleared
			return fmt.Errorf("%s: GPU %s had %d uncorrectable memory errors since its driver was loaded: reset the GPU",
				id, gpu.UUID, *c.ECCUncorrected)
		}
		p.b.log.Warn("the GPU had uncorrectable memory errors; the driver needs no recovery action",
			"device", id, "resource", p.resource, "errors", *c.ECCUncorrected)
	}
	return nil
}

// memory checks that the memory of devices without another container is free.
func (p *preparation) memory(ctx context.Context) error {
	limit := p.gpus.cfg.prepare.MaxMemoryUsedMiB
	if limit == 0 {
		return nil
	}
	for _, t := range p.Devices {
		id := t.Device.ID
		if t.Shared {
			continue
		}
		bytes, err := p.gpus.memoryUsed(ctx, t.Unit.ID, id)
		if err != nil {
			return fmt.Errorf("how much memory of %s is in use is not known: %w", id, err)
		}
		if bytes > limit<<20 {
			return fmt.Errorf("%d MiB of the memory of %s are in use before the container starts, more than %d MiB (prepare.maxMemoryUsedMiB)",
				bytes>>20, id, limit)
		}
	}
	return nil
}

// memoryUsed returns how much memory of the device, which is the GPU or one of its MIG devices,
// is in use, in bytes.
func (s source) memoryUsed(ctx context.Context, gpu, device string) (uint64, error) {
	measured, err := s.b.conn.driver.Load().Telemetry(ctx, gpu)
	if err != nil {
		return 0, err
	}
	for _, m := range measured {
		for _, v := range m.Values {
			if m.GPU == device && v.Name == "memory_used_bytes" {
				return uint64(v.Value), nil
			}
		}
		err = errors.Join(err, m.Err)
	}
	return 0, cmp.Or(err, errors.New("NVML does not report it"))
}
