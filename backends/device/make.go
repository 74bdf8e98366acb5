package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	// readyLimit is how long a function that was made may take until it is healthy, such as by its driver;
	// readyPause is the time between two scans.
	readyLimit, readyPause = 5 * time.Second, 200 * time.Millisecond
	// undoLimit bounds what is undone after a call that failed, maybe because its time was up.
	undoLimit = 5 * time.Second
)

// makeAll makes the functions of a holder, and returns their edits. If it fails, those that it made are
// removed.
func (b *Backend) makeAll(ctx context.Context, holder string, functions []engine.Target) (edits map[string]*sdk.Edits, err error) {
	var made []engine.Target
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		for _, t := range made {
			_, undo := b.unmake(ctx, holder, t.Device.ID)
			err = errors.Join(err, undo)
		}
	}()
	edits = map[string]*sdk.Edits{}
	for _, t := range functions {
		s, id := t.Driver.(source), t.Device.ID // only a source has functions
		if _, ok := s.made.madeFor(holder, id); !ok {
			made = append(made, t)
		}
		if err := b.operate(ctx, t, id+" is being made", func() error { return b.make(s, holder, t) }); err != nil {
			return nil, fmt.Errorf("make %s: %w", id, err)
		}
		if edits[id], err = b.ready(ctx, id); err != nil {
			return nil, fmt.Errorf("make %s: it was made, and cannot be given to a container: %w", id, err)
		}
	}
	return edits, nil
}

// make has a function exist for a holder, and prepared. What was made by hand is not recorded, so that Release
// leaves it.
func (b *Backend) make(s source, holder string, t engine.Target) error {
	f, id := readingIn(t.Device).function, t.Device.ID
	there, err := f.of.Virtual()
	if err != nil {
		return err
	}
	ours := s.made.of(f.of.Name)
	of, isThere := ours[f.number], there[f.number] != ""
	switch {
	case of != "" && of != holder:
		return errors.New("it was made for another claim, which has not ended")
	case f.number == whole && len(there) > 0:
		return fmt.Errorf("%s has virtual functions, and cannot be given as a whole beside them", f.of.Name)
	case f.number != whole && ours[whole] != "":
		return fmt.Errorf("%s is given to a claim as a whole, so it cannot have virtual functions", f.of.Name)
	case isThere && len(ours) == 0: // by hand
		return b.prepareFunction(s, t, there[f.number])
	case f.number != whole && !isThere && len(there) > 0:
		return errors.New(f.missing(false, len(there), len(ours) > 0).GetMessage())
	}
	if err := s.made.Put(madeFunction{f.of.Name, f.number, id}.key(), holder); err != nil {
		return err
	}
	if f.number == whole {
		return b.prepareFunction(s, t, f.of.Name)
	}
	if !isThere {
		if err := b.makeFunctions(f.of, max(s.wanted(uint64(f.total)), f.number+1)); err != nil { //nolint:gosec // not negative
			if of == "" { // what may be there was made by hand meanwhile
				err = errors.Join(err, s.made.Remove(madeFunction{f.of.Name, f.number, id}.key()))
			}
			return err
		}
		b.log.Info("virtual functions were made", "device", id, "physicalFunction", f.of.Name, "holder", holder)
	}
	name, err := f.of.Link("virtfn" + strconv.Itoa(f.number))
	if err != nil {
		return fmt.Errorf("the kernel made no virtual function %d of %s: %w", f.number, f.of.Name, err)
	}
	return b.prepareFunction(s, t, name)
}

// makeFunctions makes so many virtual functions, unless others were made since they were read: the kernel
// would report success if they are as many.
func (b *Backend) makeFunctions(p *match.Physical, n int) error {
	others, err := p.Uint("sriov_numvfs")
	if err == nil && others > 0 {
		err = fmt.Errorf("%d virtual functions of %s were made by hand meanwhile", others, p.Name)
	}
	if err != nil {
		return err
	}
	return b.setFunctions(p, n)
}

// setFunctions has a physical function have so many virtual ones. The error has the kernel's words.
func (b *Backend) setFunctions(p *match.Physical, n int) error {
	at, err := p.Path("sriov_numvfs")
	if err != nil {
		return err
	}
	if err := b.write(at, strconv.Itoa(n)); err != nil {
		return fmt.Errorf("write %d to sriov_numvfs of %s: %w; see the kernel's log", n, p.Name, err)
	}
	return nil
}

// prepareFunction does the steps for a function, by its address.
func (b *Backend) prepareFunction(s source, t engine.Target, name string) error {
	if want := readingIn(t.Device).objects[0].Object.Name; name != want {
		return fmt.Errorf("the virtual function got the address %s; %s was expected from sriov_offset and sriov_stride. This card's functions change their addresses when they are made, so they cannot be made for claims", name, want)
	}
	o, err := s.finder.FunctionAt(name)
	if err != nil || len(s.kind.Prepare) == 0 {
		return err
	}
	return b.prepare(s, t, []*expression.Scope{{Kind: s.kind.Name, Object: o, Sys: match.Root(s.cfg.host.Sysfs)}})
}

// ready waits until a function that was made is healthy, and returns its edits.
func (b *Backend) ready(ctx context.Context, id string) (*sdk.Edits, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	var last error
	for {
		seen, err := b.Scan(ctx, false, id)
		if err != nil {
			return nil, cmp.Or(last, err)
		}
		d := seen.Devices[id]
		if last = errors.Join(seen.Targets[id].Device.EditsErr, seen.Healthy(id, false)); last == nil && !d.GetPotential() && d.GetEdits() != nil {
			return d.GetEdits(), nil
		}
		select {
		case <-ctx.Done():
			return nil, cmp.Or(last, errors.New("it does not match its kind any more"))
		case <-time.After(readyPause):
		}
	}
}

// unmake undoes what make did for a holder. Is reports whether make did something.
func (b *Backend) unmake(ctx context.Context, holder, id string) (is bool, err error) {
	m, is := b.functionsMade().madeFor(holder, id)
	if !is {
		return false, nil
	}
	found, err := b.Find(ctx, []string{id})
	if err != nil {
		return true, err
	}
	units := []string{m.physical}
	for _, t := range found.Devices { // none if the settings do not have its kind any more
		units = append(units, t.Board...)
	}
	return true, b.alone(ctx, found.Devices, units, id+" is being removed", func() error { return b.remove(holder, m) })
}

// remove removes the virtual functions of a physical one with the last that is in the record. Before that what
// the steps did is undone; the last one is removed as it is.
func (b *Backend) remove(holder string, m madeFunction) error {
	made, cfg := b.functionsMade(), b.config()
	if made.Holder(m.key()) != holder {
		return nil // an earlier call, which went on after its time was up, removed it
	}
	finder := b.finder
	finder.Host = cfg.host
	p, err := finder.PhysicalAt(m.physical)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was unplugged
	case err != nil:
		return err
	case m.number != whole && len(made.of(m.physical)) == 1:
		there, err := p.Virtual()
		if err != nil {
			return err
		}
		if len(there) > 0 {
			if err := b.setFunctions(p, 0); err != nil {
				return err
			}
			b.log.Info("virtual functions were removed", "device", m.id, "physicalFunction", m.physical)
		}
	}
	if err := b.release(cfg, m.id); err != nil {
		return err
	}
	return made.Remove(m.key())
}
