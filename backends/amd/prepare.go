package amd

import (
	"context"
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Prepare implements [sdk.Preparer].
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	t, err := b.find(ctx, p.IDs())
	if err == nil {
		err = t.Missing()
	}
	if err == nil {
		err = b.leftovers(ctx, t, p)
	}
	if err != nil || !t.cfg.prepare.Check {
		return nil, err
	}
	gpus := make([]string, 0, len(t.devices))
	for _, device := range t.devices {
		gpus = append(gpus, device.gpu.ID)
	}
	seen, err := b.lookNow(ctx, gpus, false)
	if err != nil {
		return nil, err
	}
	for _, device := range t.devices {
		if err := seen.sound(device.part.ID, false); err != nil {
			return nil, fmt.Errorf("%s: %w", device.part.ID, err)
		}
	}
	return nil, nil
}

// leftovers looks for processes that are on the devices before the container is. Those
// on a device that another container holds, too, are taken for that one's.
func (b *Backend) leftovers(ctx context.Context, t *targets, p sdk.Preparation) error {
	setting := t.cfg.prepare.Leftovers
	if !setting.Wanted() {
		return nil
	}
	shared := p.Shared()
	for _, device := range t.devices {
		if slices.Contains(shared, device.part.ID) {
			continue
		}
		pids, err := users(ctx, t.cfg.host, device)
		log := b.log.With("device", device.part.ID, "resource", p.Resource)
		if err := setting.Judge(log, t.cfg.host.Procfs, pids, err); err != nil {
			return fmt.Errorf("%s: %w", device.part.ID, err)
		}
	}
	return nil
}

// users are the processes that use a device: those that compute on it, of which KFD
// tells, and those that have a node of it open, as far as they can be seen.
func users(ctx context.Context, host sdk.HostPaths, device target) ([]int, error) {
	pids, err := reset.Computing(host.Sysfs, []uint32{device.part.KFDID})
	if err != nil || !process.SeesAll(host.Procfs) {
		return pids, err
	}
	opened, err := process.Opened(ctx, host.Procfs, nodesOf(device.part)...)
	pids = append(pids, opened...)
	slices.Sort(pids)
	return slices.Compact(pids), err
}
