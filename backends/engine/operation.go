package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Operation is something done to devices of units that the caller has entered.
type Operation struct {
	// What names it in messages: "x.gbs is being programmed into region 0 of the card a".
	What string
	// Reset: the devices have the fault "resetting" meanwhile, and a success is evidence
	// of recovery.
	Reset bool
	// exclusive: the driver is not scanned meanwhile, and no unit of it has an operation.
	exclusive bool
	// Do is the operation. Its context ends before the caller's (see [sdk.InTime]), so that one
	// that can be cancelled can report the state of the devices.
	Do func(context.Context) error
	// Ended is called in the loop for each device with the result of Do; nil for nothing.
	Ended func(d *KnownDevice, err error)
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
			d := l.roster.device(t.Device.ID)
			d.operation = o
			if s := d.Unit.source; op.exclusive && s.exclusive == nil {
				o.excludeScans(s)
			}
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
		err := o.alone(early)
		if err == nil {
			err = op.Do(early)
		}
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
	return fmt.Errorf("%s: no result before the call ended; the operation is still running: %w", op.What, ctx.Err())
}

// excludeScans keeps the source from being scanned until the operation ends.
func (o *operation) excludeScans(s *source) {
	s.exclusive = o
	if !s.scanning.IsZero() {
		o.idle = make(chan struct{})
	}
}

// alone waits for the end of the scan that was in progress when the operation began.
func (o *operation) alone(ctx context.Context) error {
	if o.idle == nil {
		return nil
	}
	select {
	case <-o.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: the scan before it has not ended: %w", o.what, ctx.Err())
	}
}

// end records the end of an operation.
func (l *loop) end(o *operation, targets []Target, op Operation, err error) {
	o.ended = true
	for _, s := range l.sources {
		if s.exclusive == o {
			s.exclusive = nil
		}
	}
	renewed := map[*KnownUnit]bool{}
	for _, t := range targets {
		d := l.roster.device(t.Device.ID)
		if d == nil {
			continue
		}
		s := d.Unit.source
		o.endedAt = s.begun // the targets have one driver
		if op.Reset && err == nil {
			if !renewed[d.Unit] {
				renewed[d.Unit] = true
				d.Unit.renew()
			}
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
	d.resetAt = time.Now()
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
