package holders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// takeLimit is how long Take waits for the release of a device before it refuses. Kubelet
// sets no limit, but admits one pod after another.
const takeLimit = 30 * time.Second

// operations are the backends' operations in progress, at most one for each device:
//
//	operation   begins                              until it ends, the device
//	Prepare     when no other is in progress        may be taken
//	Release     when no other is in progress        may be taken if another holder has it
//	Reset       if no other is, and it is not held  cannot be taken
//
// A call that was given up but that the backend may still work on is in progress. The
// fields belong to Book.mu.
type operations struct {
	byDevice map[inventory.Key]*operation
	// drained: no further release or reset begins.
	drained bool
}

// operation is one call of a backend.
type operation struct {
	// what is preparation, release or reset.
	what string
	// exclusive: no holder has the devices, or gets them before the operation has ended.
	exclusive bool
	since     time.Time
	ended     chan struct{}
}

// String completes the phrase "the device has been".
func (op *operation) String() string {
	return fmt.Sprintf("in %s since %s", op.what, op.since.Format(time.TimeOnly))
}

const (
	preparing = "preparation"
	releasing = "release"
	resetting = "reset"
)

// Take gives units of a resource to a new holder: they are held when it returns nil, and
// on disk soon after, if Run runs. It waits while a device is released, or its reset after use is due,
// at most 30 s. It refuses a device that is being reset for another reason, and a device with another
// allocation that excludes the unit (a HeldError).
//
// If a unit still has a holder, that is an init container of the same pod: kubelet gives a
// unit to no other container while its holder is there. The unit then belongs to the later
// holder, and [Book.Starting] returns that one for both containers.
func (b *Book) Take(ctx context.Context, resource string, units []Unit) error {
	devices := make([]inventory.Key, len(units))
	for i, u := range units {
		devices[i] = u.Device
	}
	return b.take(ctx, devices, takeLimit, func() error {
		for _, u := range units {
			if err := b.excluding(u.Device, use{resource: resource, replica: isReplica(u.ID)}); err != nil {
				return err
			}
		}
		if b.endEarlier(resource, units) {
			return errEnded
		}
		b.give(resource, units)
		return nil
	})
}

// errEnded is what the function give of take returns if it ended earlier holders: it is called again
// when their devices can be taken.
var errEnded = errors.New("earlier holders ended")

// take calls give, with b.mu held, when no exclusive operation on one of the devices is in
// progress, and no reset after use is due, for which it waits at most resetLimit.
func (b *Book) take(ctx context.Context, devices []inventory.Key, resetLimit time.Duration, give func() error) error {
	ctx, cancel := context.WithTimeout(ctx, takeLimit)
	defer cancel()
	untilReset, cancel := context.WithTimeout(ctx, resetLimit)
	defer cancel()
	for {
		device, op, err := b.tryTake(devices, give)
		switch {
		case errors.Is(err, errEnded):
		case op == nil:
			return err
		case op.what == awaitingReset && op.wait(untilReset):
		case op.what == awaitingReset:
			return fmt.Errorf("device %s has been %s; `accelmux devices` shows why; a claim is prepared again, another pod must be deleted and created again", device, op)
		case op.what == resetting:
			return fmt.Errorf("device %s has been %s: delete the pod and create it again, so that it gets another device", device, op)
		case !op.wait(ctx):
			return fmt.Errorf("device %s has been %s: delete the pod and create it again", device, op)
		}
	}
}

// tryTake calls give, unless one of the devices has an exclusive operation in progress, or is to be reset: then it
// returns the device and the operation.
func (b *Book) tryTake(devices []inventory.Key, give func() error) (inventory.Key, *operation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, device := range devices {
		if op := b.due[device]; op != nil {
			return device, op, nil
		}
		if op := b.operations.byDevice[device]; op != nil && op.exclusive {
			return device, op, nil
		}
	}
	return inventory.Key{}, nil, give()
}

// BeginPrepare marks devices of a holder as being prepared. It waits while another
// operation on one of them is in progress, until ctx ends. end must be called when the
// backend no longer works on them.
func (b *Book) BeginPrepare(ctx context.Context, devices []inventory.Key) (end func(), err error) {
	for {
		b.mu.Lock()
		device, op := b.operations.on(devices)
		if op == nil {
			end = b.begin(preparing, false, devices)
			b.mu.Unlock()
			return end, nil
		}
		b.mu.Unlock()
		if !op.wait(ctx) {
			return nil, fmt.Errorf("device %s has been %s: %w", device, op, context.Cause(ctx))
		}
	}
}

// BeginRelease marks a device of a holder that ended as being released. shared reports that
// another holder has the device; if not, none gets it before end is called. It waits while
// another operation on it is in progress, but not longer than until ctx ends. After Drain it
// waits until ctx ends.
func (b *Book) BeginRelease(ctx context.Context, device inventory.Key) (end func(), shared bool, err error) {
	devices := []inventory.Key{device}
	for {
		b.mu.Lock()
		_, op := b.operations.on(devices)
		if op == nil && !b.operations.drained {
			shared = b.held(device)
			end = b.begin(releasing, !shared, devices)
			b.mu.Unlock()
			return end, shared, nil
		}
		b.mu.Unlock()
		if !op.wait(ctx) {
			return nil, false, context.Cause(ctx)
		}
	}
}

// BeginReset marks devices as being reset, unless one of them is held or has an operation
// in progress: then end is nil, and blocker is that device. After Drain none begins.
func (b *Book) BeginReset(devices []inventory.Key) (end func(), blocker inventory.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, device := range devices {
		if b.operations.drained || b.operations.byDevice[device] != nil || b.held(device) {
			return nil, device
		}
	}
	return b.begin(resetting, true, devices), inventory.Key{}
}

// Resetting returns the devices that are being reset, and since when; nil if there are none.
func (b *Book) Resetting() map[inventory.Key]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all map[inventory.Key]time.Time
	for device, op := range b.operations.byDevice {
		if op.what == resetting {
			if all == nil {
				all = map[inventory.Key]time.Time{}
			}
			all[device] = op.since
		}
	}
	return all
}

// Drain lets no further release or reset begin, and waits for the operations in progress
// until ctx ends.
func (b *Book) Drain(ctx context.Context) {
	b.mu.Lock()
	b.operations.drained = true
	all := make([]*operation, 0, len(b.operations.byDevice))
	for _, op := range b.operations.byDevice {
		all = append(all, op)
	}
	b.mu.Unlock()
	for _, op := range all {
		if !op.wait(ctx) {
			return
		}
	}
}

// on returns the operation in progress on one of the devices, and that device; nil if there
// is none. The caller holds Book.mu.
func (o *operations) on(devices []inventory.Key) (inventory.Key, *operation) {
	for _, device := range devices {
		if op := o.byDevice[device]; op != nil {
			return device, op
		}
	}
	return inventory.Key{}, nil
}

// begin marks the devices. The caller holds b.mu.
func (b *Book) begin(what string, exclusive bool, devices []inventory.Key) (end func()) {
	op := &operation{what: what, exclusive: exclusive, since: b.opts.Now(), ended: make(chan struct{})}
	for _, device := range devices {
		b.operations.byDevice[device] = op
	}
	if exclusive {
		wake.Send(b.changed)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, device := range devices {
			delete(b.operations.byDevice, device)
		}
		close(op.ended)
		if exclusive {
			wake.Send(b.changed)
		}
	}
}

// wait waits for the end of the operation, and returns false if ctx ended before. A nil
// operation never ends.
func (op *operation) wait(ctx context.Context) bool {
	var ended chan struct{}
	if op != nil {
		ended = op.ended
	}
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}
