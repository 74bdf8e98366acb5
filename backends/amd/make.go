package amd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// madeLimit is how long the nodes of a partition may take to appear after the switch.
const madeLimit = 10 * time.Second

// record returns the record of the partitions that holders have, nil without a file. There is one of a file in a
// process. The caller holds mu.
func (b *Backend) record(file string) (*made.Record, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // documented
	}
	if b.cfg != nil && b.cfg.stateFile == file {
		return b.cfg.made, nil
	}
	return made.Open(file)
}

// makeAll has partitions exist for a holder, and returns their edits and those that the holder did not have before,
// also with an error.
func (b *Backend) makeAll(ctx context.Context, cfg *config, holder string, parts []engine.Target) (edits map[string]*sdk.Edits, added []string, err error) {
	byGPU := map[string][]engine.Target{}
	for _, t := range parts {
		byGPU[t.Unit.ID] = append(byGPU[t.Unit.ID], t)
	}
	for _, targets := range byGPU {
		more, err := b.makeOn(ctx, cfg, holder, targets)
		if added = append(added, more...); err != nil {
			return nil, added, err
		}
	}
	edits = map[string]*sdk.Edits{}
	for _, t := range parts {
		if edits[t.Device.ID], err = b.Made(ctx, t.Device.ID, madeLimit); err != nil {
			return nil, added, err
		}
	}
	return edits, added, nil
}

// makeOn records partitions of one GPU for a holder, and has the GPU switched to their mode. It returns those that the
// holder did not have before.
func (b *Backend) makeOn(ctx context.Context, cfg *config, holder string, targets []engine.Target) (added []string, err error) {
	leave, err := b.Enter(ctx, targets[0].Unit.ID)
	if err != nil {
		return nil, err
	}
	entered := true
	defer func() {
		if entered {
			leave()
		}
	}()
	var ids []string
	for _, t := range targets {
		ids = append(ids, t.Device.ID)
	}
	seen, err := b.Scan(ctx, false, ids...)
	if err != nil {
		return nil, err
	}
	first := seen.Targets[ids[0]]
	g, mode := cardIn(first.Unit).GPU, partIn(first.Device).onDemand
	holders := cfg.holdersOn(g)
	for _, id := range ids {
		if p := partIn(seen.Targets[id].Device).onDemand; p == nil || mode == nil || p.mode != mode.mode {
			return nil, fmt.Errorf("the GPU %s cannot have the partitions %v at the same time", g.ID, ids)
		}
		if holders[id] == holder {
			continue
		}
		if err := cfg.made.Put(id, holder); err != nil {
			return added, err
		}
		added = append(added, id)
	}
	if mode.current {
		return added, nil
	}
	for _, p := range g.Partitions {
		if of := holders[p.ID]; of != "" {
			return added, fmt.Errorf("the GPU %s cannot be switched from %s to %s: holder %s has %s", g.ID, g.Compute, mode.mode.Name, of, p.ID)
		}
	}
	all, err := b.Find(ctx, idsOf(first.Unit.Devices))
	if err != nil {
		return added, err
	}
	what := fmt.Sprintf("the GPU %s is being switched from %s to %s", g.ID, g.Compute, mode.mode.Name)
	file := filepath.Join(cfg.host.Sysfs, first.Unit.Dir, "current_compute_partition")
	entered = false // Run leaves
	err = b.Run(ctx, all.Devices, leave, engine.Operation{What: what, Do: func(context.Context) error { return b.seams.write(file, mode.mode.Name) }})
	if err != nil {
		return added, fmt.Errorf("switch the GPU %s from %s to %s: %w", g.ID, g.Compute, mode.mode.Name, explain(cfg.host, err))
	}
	b.log.Info("a GPU was switched to another compute mode", "device", g.ID, "from", g.Compute, "to", mode.mode.Name, "holder", holder)
	return added, nil
}

func idsOf(devices []engine.Device) (ids []string) {
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}

// write writes a file of sysfs, which exists.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// explain adds what to do about an error of the driver.
func explain(host sdk.HostPaths, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		pids, listErr := reset.Processes(host.Sysfs)
		if listErr != nil || len(pids) == 0 {
			return fmt.Errorf("%w: a process uses the GPU", err)
		}
		return fmt.Errorf("%w: a process uses the GPU, or may use it as it has opened /dev/kfd (before about Linux 6.17 such a process blocks all GPUs): %s",
			err, process.Names(host.Procfs, pids...))
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the driver does not allow this compute mode in the GPU's memory mode", err)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the agent needs root's rights and a /sys that it may write, and a virtual function cannot be switched", err)
	}
	return err
}

// Release implements [sdk.Releaser]. The GPU stays in its mode: while it is free, that means nothing.
func (b *Backend) Release(ctx context.Context, holder sdk.Holder, devices []sdk.HeldDevice) (map[string]error, error) {
	cfg, failed := b.config(), map[string]error{}
	for _, d := range devices {
		if cfg.made == nil || cfg.made.Holder(d.ID) != holder.ID {
			continue
		}
		if err := b.giveBack(ctx, cfg, d.ID); err != nil {
			failed[d.ID] = err
		}
	}
	return failed, nil
}

// giveBack records that no holder has the partitions any more.
func (b *Backend) giveBack(ctx context.Context, cfg *config, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := cfg.made.Remove(ids...); err != nil {
		return err
	}
	_ = b.Do(context.WithoutCancel(ctx), engine.Known.ScanNow) // an error means that the loop has ended
	return nil
}
