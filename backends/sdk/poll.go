package sdk

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// defaultPoll is the interval of Poll if the backend gives none.
const defaultPoll = 10 * time.Second

// Lister lists all devices, in a stable order. With an error, each line of its
// text becomes a problem that the operator sees; the devices that came with it
// still count. If none came, the earlier ones stay listed with their health
// unknown, since a list that failed is no evidence that devices are gone.
type Lister func(ctx context.Context) ([]*Device, error)

// Poll is a loop for [Backend.Watch]. It calls list at once, after each interval, and
// as soon as settings were accepted or [Reporter.Scan] was called; it publishes what it
// got, and beats in between. While list runs there is no beat, so that a list that is
// stuck in a driver is noticed. Poll returns when ctx ends.
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
				devices, known = doubtful(out)
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

// Scan asks the loop to scan the hardware at once, and returns without waiting for it.
// [Poll] calls its list again after the one in progress, if any; another loop is woken
// by [Reporter.Reconfigured]. Several calls before the next scan cause one. Scan is for
// Configure, Prepare, Release and Reset, from any goroutine: keep the Reporter that Watch
// got, under a lock. On a nil Reporter, as before Watch, it does nothing: the loop begins
// with a scan.
func (r *Reporter) Scan() {
	if r != nil {
		r.kick()
	}
}

// doubtful returns the devices of the last inventory, with the health unknown where no fault
// is known. They are not known if it could not be encoded: it stays, with its error.
func doubtful(out *Reporter) (devices []*Device, known bool) {
	last, _, _ := out.state()
	switch {
	case last == nil:
		return nil, true
	case last.err != nil:
		return nil, false
	}
	for _, d := range proto.CloneOf(last.Inventory).GetDevices() {
		if d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_UNHEALTHY {
			d.Health = Unknown("the devices could not be listed")
		}
		devices = append(devices, d)
	}
	return devices, true
}

// pause waits for d, or until the loop is asked for a scan, and beats all the while.
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
