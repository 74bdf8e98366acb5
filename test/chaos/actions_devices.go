package main

import (
	"context"
	"slices"
)

// target is the device that an arg means, of the backends to whose devices anything can
// be done.
func (w *world) target(arg int, is func(*backend, *device) bool) (*backend, *device, bool) {
	type place struct {
		b *backend
		d *device
	}
	var places []place
	for _, b := range w.m.configured() {
		if !b.changes() || b.down() {
			continue
		}
		for _, d := range b.devices {
			if is(b, d) {
				places = append(places, place{b, d})
			}
		}
	}
	p, ok := pick(places, arg)
	return p.b, p.d, ok
}

// change makes a change of a device's entry, from rest: what is reported before and
// after it is certain.
func (w *world) change(ctx context.Context, arg int, is func(*backend, *device) bool, change func(*device)) error {
	if err := w.calm(ctx); err != nil {
		return err
	}
	b, d, ok := w.target(arg, is)
	if !ok {
		return errSkip
	}
	resource, _ := w.m.resourceOf(b)
	w.watch.spare(resource)
	for _, other := range b.devices {
		if other.group == d.group {
			w.watch.mending(other.id)
		}
	}
	change(d)
	return w.writeScenario(b)
}

func (w *world) fault(ctx context.Context, arg int) error {
	return w.change(ctx, arg, w.m.present, func(d *device) {
		kind, _ := pick(d.kinds, arg/64)
		d.entry.fault, d.entry.recovered = kind, false
	})
}

func (w *world) clear(ctx context.Context, arg int) error {
	return w.change(ctx, arg, func(_ *backend, d *device) bool { return d.entry.fault != "" }, func(d *device) { d.entry.fault = "" })
}

func (w *world) recoverDevice(ctx context.Context, arg int) error {
	return w.change(ctx, arg, func(b *backend, d *device) bool {
		return b.evidence && w.m.present(b, d) && (d.entry.fault != "" || len(d.faults) > 0)
	}, func(d *device) { d.entry.fault, d.entry.recovered = "", true })
}

func (w *world) flap(ctx context.Context, arg int) error {
	sound := func(b *backend, d *device) bool {
		return w.m.present(b, d) && d.entry == (entry{}) && len(d.faults) == 0
	}
	_, target, ok := w.target(arg, sound)
	if !ok {
		return errSkip
	}
	this := func(_ *backend, d *device) bool { return d == target }
	for range 3 {
		if err := w.change(ctx, 0, this, func(d *device) { d.entry.fault = bySelf }); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		if err := w.change(ctx, 0, this, func(d *device) { d.entry.fault = "" }); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) unplug(ctx context.Context, arg int) error {
	return w.change(ctx, arg, func(b *backend, d *device) bool {
		// Of the hardware one at a time: the kernel gives the lowest number that is free.
		other := b.vendor != nil && slices.ContainsFunc(b.devices, func(d *device) bool { return d.entry.unplugged })
		return w.m.present(b, d) && !d.fixed && !other
	}, func(d *device) { d.entry.unplugged = true })
}

func (w *world) replug(ctx context.Context, arg int) error {
	return w.change(ctx, arg, func(_ *backend, d *device) bool { return d.entry.unplugged }, func(d *device) { d.entry.unplugged = false })
}

func (m *model) anyUnplugged() bool {
	return slices.ContainsFunc(m.all(), func(b *backend) bool {
		return slices.ContainsFunc(b.devices, func(d *device) bool { return d.entry.unplugged })
	})
}
