package amd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Prepare implements [sdk.Preparer].
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (edits map[string]*sdk.Edits, err error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	cfg := b.config()
	t, err := b.Held(ctx, p)
	if err != nil {
		return nil, err
	}
	parts := slices.DeleteFunc(slices.Clone(t.Devices), func(t engine.Target) bool { return partIn(t.Device).onDemand == nil })
	if len(parts) > 0 {
		var added []string
		defer func() {
			if err != nil {
				err = errors.Join(err, b.giveBack(ctx, cfg, added...))
			}
		}()
		if edits, added, err = b.makeAll(ctx, cfg, p.Holder.ID, parts); err != nil {
			return nil, err
		}
		if t, err = b.Held(ctx, p); err != nil { // their nodes are known now
			return nil, err
		}
	}
	if err := b.leftovers(cfg, t.Devices, p.Resource); err != nil || !cfg.prepare.Check {
		return edits, err
	}
	seen, err := b.Scan(ctx, false, p.IDs()...)
	if err != nil {
		return nil, err
	}
	for _, id := range p.IDs() {
		if err := seen.Healthy(id, false); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	return edits, nil
}

// leftovers finds processes that compute on the devices before their container starts; the core finds those that have them
// open. Processes on a device that another container holds, too, are taken to be that one's.
func (b *Backend) leftovers(cfg *config, devices []engine.Target, resource string) error {
	setting := cfg.prepare.Leftovers
	if !setting.Wanted() {
		return nil
	}
	for _, t := range devices {
		id := t.Device.ID
		if t.Shared {
			continue
		}
		pids, err := reset.Computing(cfg.host.Sysfs, []uint32{partIn(t.Device).KFDID})
		if err := setting.Judge(b.log.With("device", id, "resource", resource), process.Named(cfg.host.Procfs, pids...), err); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}
