package amd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// madeLimit is how long the nodes of a partition may take to appear after the switch.
const madeLimit = 10 * time.Second

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
	entered = false // switchMode leaves
	if err := b.switchMode(ctx, cfg, first.Unit, mode.mode.Name, leave); err != nil {
		return added, fmt.Errorf("switch the GPU %s from %s to %s: %w", g.ID, g.Compute, mode.mode.Name, err)
	}
	b.log.Info("a GPU was switched to another compute mode", "device", g.ID, "from", g.Compute, "to", mode.mode.Name, "holder", holder)
	return added, nil
}

// switchMode switches a GPU that the caller has entered to another compute mode, and leaves it.
func (b *Backend) switchMode(ctx context.Context, cfg *config, unit engine.Unit, mode string, leave func()) error {
	g := cardIn(unit).GPU
	all, err := b.Find(ctx, idsOf(unit.Devices))
	if err != nil {
		leave()
		return err
	}
	file := filepath.Join(cfg.host.Sysfs, unit.Dir, "current_compute_partition")
	return b.Run(ctx, all.Devices, leave, engine.Operation{
		What: fmt.Sprintf("the GPU %s is being switched from %s to %s", g.ID, g.Compute, mode),
		Do: func(context.Context) error {
			err := b.seams.write(file, mode)
			if now, readErr := sysfs.Text(file); err == nil && readErr == nil && now != mode {
				err = errNotSwitched
			}
			return explain(cfg.host, err)
		},
		Ended: func(d *engine.KnownDevice, err error) {
			if lasts(err) {
				memoryOf(d.Unit).refuse(modes{g.Memory, mode}, err)
			}
		},
	})
}

func idsOf(devices []engine.Device) (ids []string) {
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}

// errNotSwitched: until about Linux 6.12 the driver of a virtual function accepts each mode, and does nothing. Later
// ones have no available_compute_partition for it.
var errNotSwitched = errors.New("the driver accepted the mode and did not switch to it: a virtual function cannot be switched")

// lasts reports whether an error of the switch comes again at each attempt.
func lasts(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, errNotSwitched)
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
			err, process.Named(host.Procfs, pids...))
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the driver does not allow this compute mode in the GPU's memory mode", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the GPU is in reset", err)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: the agent needs root's rights and a /sys that it may write", err)
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
