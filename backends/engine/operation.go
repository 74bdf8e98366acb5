package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// exclusive allows one thing at a time for each unit. The zero value is ready; it is safe
// for concurrent use.
type exclusive struct {
	mu    sync.Mutex
	units map[string]chan struct{} // by ID; has one element while the unit is in use
}

// enter waits until the unit is free. Leave may be called more than once.
func (x *exclusive) enter(ctx context.Context, unit string) (leave func(), err error) {
	place := x.place(unit)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// try is enter without waiting.
func (x *exclusive) try(unit string) (leave func(), ok bool) {
	place := x.place(unit)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), true
	default:
		return nil, false
	}
}

func (x *exclusive) place(unit string) chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.units == nil {
		x.units = map[string]chan struct{}{}
	}
	if x.units[unit] == nil {
		x.units[unit] = make(chan struct{}, 1)
	}
	return x.units[unit]
}

// Operation is something done to devices of units that the caller has entered.
type Operation struct {
	// What names it in messages: "x.gbs is being programmed into region 0 of the card a".
	What string
	// Reset: the devices have the fault "resetting" meanwhile, and a success is evidence
	// of recovery.
	Reset bool
	// Do does it. Its context ends before the caller's (see [sdk.InTime]), so that what can
	// be cancelled reports itself what became of the devices.
	Do func(context.Context) error
	// Ended is called in the loop for each device with the result of Do; nil for nothing.
	Ended func(d *KnownDevice, err error)
}

// operation is one in progress, or one that no scan has followed.
type operation struct {
	what  string
	reset bool
	since time.Time
	// ended: Do has returned; a scan with a number above endedAt shows the result.
	// abandoned: the caller no longer waits.
	ended, abandoned bool
	endedAt          uint64
}

// fault is that of a device with the operation; nil if there is none.
func (o *operation) fault() *sdk.Health {
	switch {
	case o == nil:
		return nil
	case o.reset:
		return sdk.Fault("resetting", sdk.RecoverySelf, "it is being reset: what ran on it is lost")
	case o.abandoned:
		return sdk.Fault("programming", sdk.RecoverySelf, fmt.Sprintf(
			"%s since %s, which took longer than the start of a container may: it can be used when that has ended; if it does not end, see the kernel's log",
			o.what, o.since.UTC().Format(time.RFC3339)))
	}
	return nil
}

// programming reports whether the health of the device stays as reported: it is being
// programmed for a container, which waits for that.
func (d *KnownDevice) programming() bool {
	return d.operation != nil && !d.operation.reset && !d.operation.abandoned && d.reported != nil
}

// Run does an operation and returns its error. When ctx ends it returns although the
// operation may go on, as the kernel cannot always be interrupted. Leave is called when
// the operation has really ended.
func (e *Engine) Run(ctx context.Context, targets []Target, leave func(), op Operation) error {
	o := &operation{what: op.What, reset: op.Reset}
	l, err := sdk.InLoop(ctx, e.asks, func(l *loop) *loop {
		for _, t := range targets {
			if l.roster.device(t.Device.ID) == nil {
				return nil
			}
		}
		o.since = time.Now()
		for _, t := range targets {
			l.roster.device(t.Device.ID).operation = o
		}
		return l
	})
	if err == nil && l == nil {
		err = sdk.Targets{Unknown: ids(targets)}.Missing()
	}
	if err != nil {
		leave()
		return err
	}
	result := make(chan error, 1)
	go func() {
		early, cancel := sdk.InTime(ctx)
		defer cancel()
		err := op.Do(early)
		l.post(func() { l.end(o, targets, op, err) })
		leave()
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result: // it ended because ctx did
		return err
	default:
	}
	l.post(func() { o.abandoned = !o.ended })
	return fmt.Errorf("%s, which has not ended, and was abandoned: %w", op.What, ctx.Err())
}

// end records the end of an operation.
func (l *loop) end(o *operation, targets []Target, op Operation, err error) {
	o.ended = true
	for _, t := range targets {
		d := l.roster.device(t.Device.ID)
		if d == nil {
			continue
		}
		s := d.Unit.source
		o.endedAt = s.begun // the targets have one driver
		if op.Reset && err == nil {
			d.reset()
		}
		if op.Ended != nil {
			op.Ended(d, err)
		}
		// A caller that waits for the result asks for a scan at once, which is enough.
		s.scanAt(time.Now().Add(settle))
	}
}

// reset records that the device was reset, and with it what its unit had latched. That is
// evidence, too, for other devices of the board that had no fault of their own.
func (d *KnownDevice) reset() {
	at := d.Unit.source.begun
	d.renew(at)
	for _, known := range d.Unit.roster.units {
		if known.source != d.Unit.source || known.Unit.Board != d.Unit.Unit.Board {
			continue
		}
		for _, other := range known.devices {
			if other != d && !other.ownFault && isFault(other.reported) {
				other.renewed, other.renewedAt = true, at
			}
		}
	}
}

func ids(targets []Target) []string {
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.Device.ID
	}
	return all
}
