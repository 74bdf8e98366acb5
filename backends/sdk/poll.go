package sdk

import (
	"context"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// defaultPoll is the interval of Poll if the backend sets none.
const defaultPoll = 10 * time.Second

// Lister lists all devices, in a stable order. With an error, each line of its text becomes a
// problem that the operator sees, and the devices returned with it are used. If none were, the
// earlier ones stay listed with unknown health, since a failed list is no evidence that devices
// were removed.
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
		if err == nil {
			out.Publish(devices)
		} else {
			known := true
			if len(devices) == 0 {
				devices, known = unconfirmed(out)
			}
			if known {
				out.Publish(devices, lines(err.Error())...)
			}
		}
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

// unconfirmed returns the devices of the last inventory, with unknown health unless they have a
// fault. known is false if the inventory could not be encoded: it stays, with its error.
func unconfirmed(out *Reporter) (devices []*Device, known bool) {
	last, _, _ := out.state()
	switch {
	case last == nil:
		return nil, true
	case last.err != nil:
		return nil, false
	}
	wire, err := last.decode()
	if err != nil {
		return nil, false
	}
	for _, d := range wire.GetDevices() {
		if d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_UNHEALTHY {
			d.Health = Unknown("the devices could not be listed")
		}
		devices = append(devices, d)
	}
	return devices, true
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
