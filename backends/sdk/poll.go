package sdk

import (
	"context"
	"strings"
	"time"
)

// defaultPoll is the interval of Poll if the backend sets none.
const defaultPoll = 10 * time.Second

// Lister lists all devices, in a stable order. With an error, the devices that are not returned could not be looked at,
// for that reason: the core keeps those that it knows, since a failed list is no evidence that devices were removed.
type Lister func(ctx context.Context) ([]*Device, error)

// Poll is a loop for [Backend.Watch]. It calls list at once, after each interval, and as soon as
// settings were accepted or [Reporter.Scan] was called; it publishes the result, and beats in
// between. While list runs there is no beat, so that a list that hangs in a driver is noticed.
// Poll returns when ctx ends.
//
// interval is called before each wait, in the goroutine of Poll, so that settings can
// change it. Nil, and a result of zero or less, mean 10 s.
func Poll(ctx context.Context, out *Reporter, interval func() time.Duration, list Lister) error {
	for {
		devices, err := list(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		inventory := Inventory{Devices: devices}
		if err != nil {
			inventory.Unread = []*Unread{{Reason: strings.Join(lines(err.Error()), "; ")}}
		}
		out.PublishInventory(inventory)
		wait := defaultPoll
		if interval != nil {
			if d := interval(); d > 0 {
				wait = d
			}
		}
		if err := pause(ctx, out, wait); err != nil {
			return err
		}
	}
}

// Scan makes the loop scan the hardware at once, and returns without waiting for it. [Poll]
// calls its list again after the one in progress, if any; another loop is woken by
// [Reporter.Reconfigured]. Several calls before the next scan cause one. Scan is for Configure,
// Prepare, Release and Reset, from any goroutine: store the Reporter that Watch got, under a
// lock. On a nil Reporter, as before Watch, it does nothing: the loop begins with a scan.
func (r *Reporter) Scan() {
	if r != nil {
		r.kick()
	}
}

// pause waits for d, or until a scan is requested, and beats meanwhile.
func pause(ctx context.Context, out *Reporter, d time.Duration) error {
	due := time.NewTimer(d)
	defer due.Stop()
	for {
		out.Beat()
		beat := time.NewTimer(out.Pace())
		select {
		case <-ctx.Done():
		case <-out.Reconfigured():
		case <-due.C:
		case <-beat.C:
			continue
		}
		beat.Stop()
		return ctx.Err()
	}
}
