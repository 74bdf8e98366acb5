package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Prepare implements [sdk.Preparer]: it does the steps of the descriptions for the first holder of
// a device. A device that is bound to a driver by them has its nodes only then, and returns what it
// has as edits.
//
//	record   the only holder       one of several
//	none     steps                 refused: what another holder has is not changed
//	begun    steps                 steps: no holder started with it
//	done     steps, once more      nothing
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	found, err := b.Held(ctx, p)
	if err != nil {
		return nil, err
	}
	var bound []string
	for _, t := range found.Devices {
		s, ok := t.Driver.(source)
		if !ok || len(s.kind.Prepare) == 0 {
			continue
		}
		err := b.operate(ctx, t, t.Device.ID+" is being prepared", func() error { return b.prepare(s, t) })
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", t.Device.ID, err)
		}
		if s.binds() {
			bound = append(bound, t.Device.ID)
		}
	}
	if len(bound) == 0 {
		return nil, nil
	}
	seen, err := b.Scan(ctx, false, bound...)
	if err != nil {
		return nil, err
	}
	edits := map[string]*sdk.Edits{}
	for _, id := range bound {
		// It must match still, now that it has another driver.
		if err := errors.Join(seen.Targets[id].Device.EditsErr, seen.Healthy(id, false)); err != nil {
			return nil, fmt.Errorf("prepare %s: after it was bound: %w", id, err)
		}
		edits[id] = seen.Targets[id].Device.Edits
	}
	return edits, nil
}

// operate does something to one device while nothing else is done to it.
func (b *Backend) operate(ctx context.Context, t engine.Target, what string, do func() error) error {
	leave, err := b.Enter(ctx, t.Board...)
	if err != nil {
		return err
	}
	return b.Run(ctx, []engine.Target{t}, leave, engine.Operation{What: what, Do: func(context.Context) error { return do() }})
}

// prepare does the steps for one device.
func (b *Backend) prepare(s source, t engine.Target) error {
	objects := readingIn(t.Device).objects
	all := b.recordsOf(s.cfg)
	is, err := all.load(t.Device.ID)
	switch {
	case err != nil:
		return err
	case t.Shared && is == nil:
		return errors.New("another container has it, or may have it, for which it was not prepared: it can be prepared when that one has ended")
	case t.Shared && is.Done:
		return nil
	case is == nil:
		is = &record{}
	}
	is.Done = false
	for _, step := range s.kind.Prepare {
		for _, o := range objects {
			if step.Bind != nil {
				if err := s.groupError(o.Object, objects); err != nil {
					return err
				}
				if err := is.note(b.busOf(s.cfg), step.Bind.Driver, o.Object); err != nil {
					return err
				}
			}
		}
	}
	if err := all.store(t.Device.ID, is); err != nil {
		return err
	}
	for i, step := range s.kind.Prepare {
		for _, o := range objects {
			var err error
			if step.Bind == nil {
				_, err = write(step.Write, o)
			} else if f, wrong := o.Object.Function(); wrong != nil {
				err = wrong
			} else {
				err = b.busOf(s.cfg).bind(f.Name, step.Bind.Driver)
			}
			if err != nil {
				return fmt.Errorf("step %d of the kind %s: %w", i+1, s.kind.Name, err)
			}
		}
	}
	is.Done = true
	return all.store(t.Device.ID, is)
}

// note records what the function of an object is before it is bound. One that is bound already, or
// was left in the middle of that, stays as it was recorded. One that is bound without a record was not
// bound by Prepare.
func (is *record) note(on bus, driver string, o *match.Object) error {
	f, err := o.Function()
	if err != nil {
		return err
	}
	now, err := on.bindingTo(driver, f)
	if err != nil || now == nil {
		return err
	}
	of := func(old binding) bool { return old.Function == f.Name }
	if now.Override == driver && slices.ContainsFunc(is.Bindings, of) {
		return nil
	}
	is.Bindings = append(slices.DeleteFunc(is.Bindings, of), *now)
	return nil
}

// Release implements [sdk.Releaser]: it undoes what Prepare bound when the last holder has ended.
func (b *Backend) Release(ctx context.Context, _ sdk.Holder, devices []sdk.HeldDevice) (map[string]error, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	failed := map[string]error{}
	for _, d := range devices {
		if d.Shared {
			continue
		}
		found, err := b.Find(ctx, []string{d.ID})
		if err != nil {
			return nil, err
		}
		for _, t := range found.Devices {
			failed[d.ID] = b.operate(ctx, t, d.ID+" is being released", func() error { return b.release(b.config(), d.ID) })
		}
		if len(found.Devices) == 0 { // no kind matches it any more, or not yet
			failed[d.ID] = b.releaseUnknown(ctx, d.ID)
		}
	}
	return failed, nil
}

// releaseUnknown is release for a device that is not known: the record has all that is to be undone.
func (b *Backend) releaseUnknown(ctx context.Context, id string) error {
	if id != filepath.Base(id) {
		return nil // no device has such an ID
	}
	leave, err := b.Enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return b.release(b.config(), id)
}

// release undoes what the record of a device has.
func (b *Backend) release(cfg *config, id string) error {
	all := b.recordsOf(cfg)
	is, err := all.load(id)
	if err != nil {
		return err
	}
	if is != nil {
		for _, was := range slices.Backward(is.Bindings) {
			if err := b.busOf(cfg).undo(was); err != nil {
				return err
			}
		}
	}
	return all.remove(id)
}

func (b *Backend) recordsOf(cfg *config) records {
	return records{cmp.Or(cfg.StateDir, b.records), cfg.host.Procfs}
}

func (b *Backend) busOf(cfg *config) bus { return bus{cfg.host.Sysfs, b.write} }
