package nvidia

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	// nodeLimit is how long the device nodes of a MIG device may take to appear.
	nodeLimit = 5 * time.Second
	// undoLimit bounds what is undone after a call that failed, maybe because its time was up.
	undoLimit = 5 * time.Second
)

// makeAll makes the partitions of a holder, and returns their edits. If it fails, those that it made are
// destroyed.
func (b *Backend) makeAll(ctx context.Context, cfg *config, holder string, parts []engine.Target) (edits map[string]*sdk.Edits, err error) {
	var made []engine.Target
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		for _, t := range made {
			err = errors.Join(err, b.destroy(ctx, cfg, t))
		}
	}()
	edits = map[string]*sdk.Edits{}
	for _, t := range parts {
		isNew, err := b.make(ctx, cfg, holder, t)
		if isNew {
			made = append(made, t)
		}
		if err != nil {
			return nil, err
		}
		if edits[t.Device.ID], err = b.Made(ctx, t.Device.ID, nodeLimit); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// make has a partition exist for a holder. isNew reports whether it was created, or may have been; then it is
// in the record.
func (b *Backend) make(ctx context.Context, cfg *config, holder string, t engine.Target) (isNew bool, err error) {
	id, gpu := t.Device.ID, t.Unit.ID
	leave, err := b.Enter(ctx, gpu)
	if err != nil {
		return false, err
	}
	defer leave()
	seen, err := b.Scan(ctx, false, id)
	if err != nil {
		return false, err
	}
	p, of := partitionOf(seen.Targets[id].Device), cfg.made.Holder(id)
	switch {
	case p == nil:
		return false, fmt.Errorf("the GPU cannot have the MIG device %s any more", id)
	case p.exists && of == "": // made by hand
		return false, nil
	case p.exists && p.instance != nil:
		return false, cfg.made.Put(id, holder)
	case p.exists: // by a process that ended in between
		if err := b.driver().DestroyInstance(ctx, gpu, p.profile.Name, p.at.Start); err != nil {
			return false, fmt.Errorf("destroy what is left of the MIG device %s: %w", id, err)
		}
	}
	if err := cfg.made.Put(id, holder); err != nil {
		return false, err
	}
	err = b.driver().CreateInstance(ctx, gpu, p.profile.Name, p.at.Start)
	if err == nil {
		b.log.Info("a MIG device was created", "device", id, "holder", holder)
		return true, nil
	}
	err = fmt.Errorf("create the MIG device %s at slice %d of GPU %s: %w", p.profile.Name, p.at.Start, gpu, err)
	if errors.Is(err, driver.ErrNoAnswer) || errors.Is(err, driver.ErrLeft) || ctx.Err() != nil { // it may go on
		return true, err
	}
	return false, errors.Join(err, cfg.made.Remove(id))
}

// driver returns the driver; a closed one before the first scan.
func (b *Backend) driver() *driver.Driver {
	if d := b.conn.driver.Load(); d != nil {
		return d
	}
	return driver.New(driver.Options{})
}

// Release implements [sdk.Releaser]: it destroys the MIG devices that Prepare made for the holder, and sets time
// slices back.
func (b *Backend) Release(ctx context.Context, holder sdk.Holder, devices []sdk.HeldDevice) (map[string]error, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	cfg, failed := b.config(), map[string]error{}
	for _, device := range devices {
		var err error
		switch {
		case cfg.made != nil && cfg.made.Holder(device.ID) == holder.ID:
			err = b.unmake(ctx, cfg, device.ID)
		case cfg.slicing != nil:
			err = b.unslice(ctx, cfg, holder.ID, device.ID, device.Shared)
		}
		if err != nil {
			failed[device.ID] = err
		}
	}
	return failed, nil
}

// unmake has a partition that Prepare made not exist any more.
func (b *Backend) unmake(ctx context.Context, cfg *config, id string) error {
	t, err := b.Find(ctx, []string{id})
	if err != nil {
		return err
	}
	if len(t.Devices) == 0 {
		return b.forget(ctx, cfg, id)
	}
	return b.destroy(ctx, cfg, t.Devices[0])
}

// forget removes a partition that is not known from the record: it is gone with its GPU, or with the MIG mode.
// Before all GPUs were read in this process that is not known.
func (b *Backend) forget(ctx context.Context, cfg *config, id string) error {
	var read bool
	if err := b.Do(ctx, func(known engine.Known) { read = known.Scanned() }); err != nil {
		return err
	}
	if !read || !b.forgotten.Load() {
		return fmt.Errorf("whether the MIG device %s exists is unknown until all GPUs can be read: it is released then", id)
	}
	return cfg.made.Remove(id)
}

// destroy destroys a partition that Prepare made.
func (b *Backend) destroy(ctx context.Context, cfg *config, t engine.Target) error {
	id, p := t.Device.ID, partitionOf(t.Device)
	if p == nil {
		return fmt.Errorf("%s is no MIG device that can be destroyed", id)
	}
	leave, err := b.Enter(ctx, t.Unit.ID)
	if err != nil {
		return err
	}
	defer leave()
	if err := b.driver().DestroyInstance(ctx, t.Unit.ID, p.profile.Name, p.at.Start); err != nil {
		return fmt.Errorf("destroy the MIG device %s: %w", id, err)
	}
	b.log.Info("a MIG device was destroyed", "device", id)
	// The record has it until a scan has seen that it is gone: else it would be listed as made by hand.
	_, err = b.Scan(ctx, false, id)
	return errors.Join(err, cfg.made.Remove(id))
}
