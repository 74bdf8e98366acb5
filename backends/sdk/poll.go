package sdk

import (
	"context"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// defaultPoll is how often Poll lists if it is not told.
const defaultPoll = 10 * time.Second

// Lister lists all devices, in a stable order. With an error, each line of its
// text becomes a problem that the operator sees; the devices that came with it
// still count. If none came, the earlier ones stay listed with their health
// unknown, since a list that failed is no evidence that devices are gone.
type Lister func(ctx context.Context) ([]*Device, error)

// Poll is a loop for [Backend.Watch]. It calls list at once, then every so often
// (zero or less means every 10 s) and as soon as settings changed, publishes
// what it got, and beats in between. While list runs there is no beat, so a list
// that is stuck in a driver is noticed. Poll returns when ctx ends.
func Poll(ctx context.Context, out *Reporter, every time.Duration, list Lister) error {
	if every <= 0 {
		every = defaultPoll
	}
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
		if err := pause(ctx, out, every); err != nil {
			return err
		}
	}
}

// doubtful are the devices of the last inventory, none of them surely healthy. They
// are not known if that could not be encoded: it stays, and with it its error.
func doubtful(out *Reporter) (devices []*Device, known bool) {
	last, _, _ := out.state()
	newest, err := last.decode()
	if err != nil {
		return nil, false
	}
	for _, d := range newest.GetDevices() {
		if d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_UNHEALTHY {
			d.Health = Unknown("the devices could not be listed")
		}
		devices = append(devices, d)
	}
	return devices, true
}

// pause waits for d, less if settings changed, and beats all the while.
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
