package fpga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// All that is known of the FPGAs belongs to the loop. A call that needs it has the loop
// run a function between two of its rounds, which takes away copies.

// targets are what a call is for.
type targets struct {
	sdk.Targets
	cfg  *config
	loop *loop
	// devices are those asked for.
	devices []target
}

// target is a device: a region, its card, and who reads it.
type target struct {
	driver driver.Driver
	card   driver.Card
	region driver.Region
	// put is what this process put into it; nil if nothing.
	put *program
	// along are the IDs of others that a reset takes along.
	along []string
}

// name is the region in words, for errors.
func (t target) name() string {
	if t.card.ID == t.region.ID {
		return t.card.ID
	}
	return fmt.Sprintf("region %d of the card %s", t.region.Number, t.card.ID)
}

// find says what there is to the devices.
func (b *Backend) find(ctx context.Context, ids []string) (*targets, error) {
	return sdk.InLoop(ctx, b.asks, func(l *loop) *targets { return l.find(ids) })
}

func (l *loop) find(ids []string) *targets {
	t := &targets{cfg: l.cfg, loop: l}
	seen := map[string]bool{}
	for _, known := range l.roster.sorted() {
		for _, r := range known.sorted() {
			if slices.Contains(ids, r.known.ID) {
				t.devices = append(t.devices, l.target(r))
				seen[r.known.ID] = true
			}
		}
	}
	for _, device := range t.devices {
		for _, id := range device.along {
			if !seen[id] && !slices.Contains(t.Others, id) {
				t.Others = append(t.Others, id)
			}
		}
	}
	t.Unknown = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return seen[id] })
	return t
}

func (l *loop) target(r *region) target {
	t := target{driver: r.of.by.driver, card: r.of.card, region: r.now}
	if r.program != nil {
		program := *r.program
		t.put = &program
	}
	if r.known.Kind == driver.Platform {
		t.along = l.along(r)
	}
	return t
}

// along are the whole cards that are reset with one: those of its board.
func (l *loop) along(r *region) (ids []string) {
	for _, known := range l.roster.sorted() {
		for _, other := range known.sorted() {
			if other != r && other.known.Kind == driver.Platform && known.card.Board == r.of.card.Board {
				ids = append(ids, other.known.ID)
			}
		}
	}
	return ids
}

// found is what a look found, as it was published, by the ID of the device.
type found struct {
	devices map[string]*sdk.Device
	targets map[string]target
}

// sound is an error unless the device is as it should be, or, after a reset, there is
// evidence that it is.
func (f found) sound(id string, reset bool) error {
	d := f.devices[id]
	h := d.GetHealth()
	switch {
	case d == nil:
		return errors.New("the device is not listed any more")
	case h.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY:
		return errors.New(h.GetMessage())
	case reset && !h.GetRecovered():
		return errors.New("there is no evidence that the FPGA is sound")
	}
	return nil
}

// waiter waits for looks at regions that begin later than it.
type waiter struct {
	ctx context.Context
	// begun are the looks that began before, by the region.
	begun   map[string]uint64
	regions []string
	// back says that something was done to them: they must be there, and not busy.
	back  bool
	found chan found
}

// lookNow has the loop look at regions, and says what it found. After something was
// done to them it waits until all of them are back.
func (b *Backend) lookNow(ctx context.Context, back bool, regions ...string) (found, error) {
	w := &waiter{ctx: ctx, begun: map[string]uint64{}, regions: regions, back: back, found: make(chan found, 1)}
	_, err := sdk.InLoop(ctx, b.asks, func(l *loop) bool {
		for _, r := range l.regions(regions) {
			w.begun[r.known.ID] = r.of.by.begun
			r.of.by.wantAt(time.Now())
		}
		l.waiters = append(l.waiters, w)
		return true
	})
	if err != nil {
		return found{}, err
	}
	select {
	case f := <-w.found:
		return f, nil
	case <-ctx.Done():
		return found{}, fmt.Errorf("wait for the FPGA to answer: %w", ctx.Err())
	}
}

// regions are those that are known.
func (l *loop) regions(ids []string) []*region {
	var all []*region
	for _, id := range ids {
		if known := l.roster.region(id); known != nil {
			all = append(all, known)
		}
	}
	return all
}

// answer tells those who wait for a look what was published.
func (l *loop) answer() {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil {
			return true // gone
		}
		for _, r := range l.regions(w.regions) {
			by := r.of.by
			if by.last.number <= w.begun[r.known.ID] {
				return false
			}
			if w.back && (r.task != nil || !r.busy.IsZero() || r.missing != nil || r.of.absent != nil) {
				by.wantAt(by.last.began.Add(settle))
				return false
			}
		}
		f := found{devices: map[string]*sdk.Device{}, targets: map[string]target{}}
		for _, r := range l.regions(w.regions) {
			f.devices[r.known.ID], _ = l.device(r)
			f.targets[r.known.ID] = l.target(r)
		}
		w.found <- f
		return true
	})
}
