package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// check is the first invariant that does not hold, or nil.
func check(o *observation, use func(invariant) bool) *violation {
	for _, i := range invariants() {
		if !use(i) {
			continue
		}
		if what := i.check(o); what != "" {
			return &violation{i.name, what}
		}
	}
	return nil
}

// now fails if an invariant that must hold at every moment does not.
func (w *world) now(ctx context.Context) error {
	if broken := check(w.look(ctx, false), func(i invariant) bool { return i.always }); broken != nil {
		return broken
	}
	return nil
}

// settle waits until every invariant holds, and fails with the one that does not
// within the bound. After that the node is at rest.
func (w *world) settle(ctx context.Context) error {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for limit, over := patience.NewLimit(w.bound), false; ; over = limit.Over() {
		if err := w.spreadClock(); err != nil {
			return err
		}
		o := w.look(ctx, false)
		broken := check(o, func(i invariant) bool { return !i.deep })
		if broken == nil {
			o = w.look(ctx, true)
			broken = check(o, func(invariant) bool { return true })
		}
		if broken == nil {
			w.rest(o)
			return nil
		}
		if o.Incidents[broken.name] != "" {
			return broken
		}
		w.waited = broken
		if over {
			broken.what += fmt.Sprintf(", for %v", w.bound)
			return broken
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// calm settles the node unless it is at rest, which it is after that.
func (w *world) calm(ctx context.Context) error {
	if !w.rushed {
		return nil
	}
	return w.settle(ctx)
}

// rest takes note of what is true now and stays so until something happens.
func (w *world) rest(o *observation) {
	w.rushed = false
	w.m.rest(o.Holds)
	w.forgetGone(o.Holds)
	// A backend more is a handful of files, and an agent that can write no CDI spec, or has no API
	// server, serves less.
	whole := o.KubeletUp && !w.anyDown() && !w.m.readOnly && !w.m.diskFull && !w.m.away
	for _, a := range o.Agents {
		if whole && w.baselines[a.PID] == 0 && a.Role == status.RoleActive {
			w.baselines[a.PID] = a.Descriptors
		}
	}
	for _, b := range w.m.configured() {
		for _, d := range b.devices {
			if !b.down() && w.m.present(b, d) {
				w.clarify(d, o.Known)
			}
		}
	}
	floor, stuck := map[string]int{}, map[string]string{}
	if !o.KubeletUp {
		w.watch.rest(floor, stuck)
		return
	}
	for _, b := range w.m.configured() {
		resource, _ := w.m.resourceOf(b)
		for _, h := range o.Wanted[resource] {
			// Nothing else is possible; but iota's devices are reset after use, whenever the agent learns of the end.
			if h == healthy && b != w.m.iota {
				floor[resource]++
			}
		}
		for _, d := range b.devices {
			if faulty, certain := w.m.faulty(b, d, o.Holds); faulty && certain && !b.down() && w.m.present(b, d) {
				stuck[d.id] = fmt.Sprint(d.faults)
			}
		}
	}
	w.watch.rest(floor, stuck)
}

// clarify ends the doubt about a device's faults: the agent says which it knows.
func (w *world) clarify(d *device, known map[string][]string) {
	codes, ok := known[d.id]
	if !d.hazy || !ok {
		return
	}
	d.hazy = false
	for kind := range d.faults {
		if kind != d.entry.fault && !slices.Contains(codes, code(kind)) {
			delete(d.faults, kind)
		}
	}
}
