package agent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxReleaseDoublings bounds the back-off between releases that fail.
const maxReleaseDoublings = 6

// followReleases releases the devices of holders that ended, until ctx ends. What could
// not be done by then is sent again after a restart.
func (a *Agent) followReleases(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ended := <-a.book.Ended():
			a.released(ctx, ended)
		}
	}
}

// released begins the release of devices whose holder ended. Each has its own goroutine,
// which ends when the device is released.
func (a *Agent) released(ctx context.Context, all []holders.Ended) {
	for _, ended := range all {
		a.onDuty.Go(func() {
			for failures := 0; !a.tryRelease(ctx, ended); failures++ {
				pause := a.opts.Timing.ReleaseBackoff << min(failures, maxReleaseDoublings)
				if !sleep(ctx, pause+rand.N(pause/4+1)) {
					return
				}
			}
		})
	}
}

// tryRelease reports whether nothing is left to do for the device of a holder that
// ended. If no other holder has the device, none gets it meanwhile.
func (a *Agent) tryRelease(ctx context.Context, ended holders.Ended) bool {
	key := ended.Key
	end, shared, err := a.book.BeginRelease(ctx, key)
	if err != nil {
		return true // ctx ended: the next run does it
	}
	err = a.release(ctx, ended, a.view.Load().Device(key), shared, end)
	a.tally.Released(key.Backend, err)
	a.opts.Released(key.Backend, key.ID, err)
	a.unreleased.note(ended, err)
	if err != nil {
		a.log.Warn("release a device, trying again", "backend", key.Backend, "device", key.ID, "holder", ended.Holder, "error", err)
		return false
	}
	a.log.Debug("device released", "backend", key.Backend, "device", key.ID, "holder", ended.Holder)
	a.book.Settled(ended)
	return true
}

// release does what must follow the end of a holder; device is nil if it is gone, and
// shared if another holder has it. end is called when no backend works on it any more.
func (a *Agent) release(ctx context.Context, ended holders.Ended, device *inventory.Device, shared bool, end func()) error {
	if err := a.cdi.Undefine(ended.Key, a.liveHolders(ended.Key)); err != nil {
		end()
		return fmt.Errorf("remove the CDI definition of its holder: %w", err)
	}
	if device == nil || !device.Hooks.Release {
		end()
		return nil
	}
	response, err := a.supervisor.Release(ctx, ended.Key.Backend, &backendv1.ReleaseRequest{
		Holder: containerHolder(ended.Holder), Devices: []*backendv1.HeldDevice{{Id: ended.Key.ID, Shared: shared}},
	}, end)
	if err != nil {
		return err
	}
	return unreleasedError(ended.Key, response)
}

// unreleasedError is an error unless the backend has released the device.
func unreleasedError(key inventory.Key, response *backendv1.ReleaseResponse) error {
	for _, result := range response.GetResults() {
		if result.GetDeviceId() != key.ID {
			continue
		}
		if result.GetReleased() {
			return nil
		}
		return fmt.Errorf("backend %s: Release: %s", key.Backend, orNothing(result.GetMessage()))
	}
	return fmt.Errorf("backend %s: Release: it returned no result for the device", key.Backend)
}

// unreleased are devices of holders that ended whose latest release failed, and why; the
// zero value is ready. It is safe for concurrent use.
type unreleased struct {
	mu  sync.Mutex
	why map[holders.Ended]string
}

// note records the result of a release.
func (u *unreleased) note(ended holders.Ended, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.why, ended)
		return
	}
	if u.why == nil {
		u.why = map[holders.Ended]string{}
	}
	u.why[ended] = err.Error()
}

// problems are for status, in the order of the devices. What is the same for several
// holders of a device is one problem.
func (u *unreleased) problems() []status.Problem {
	u.mu.Lock()
	defer u.mu.Unlock()
	problems := make([]status.Problem, 0, len(u.why))
	for ended, why := range u.why {
		problems = append(problems, status.Problem{
			Backend: ended.Key.Backend, Device: ended.Key.ID, Message: "its holder is gone, but its release fails, and is tried again: " + why,
		})
	}
	compare := func(a, b status.Problem) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(problems, compare)
	return slices.CompactFunc(problems, func(a, b status.Problem) bool { return compare(a, b) == 0 })
}

// sleep waits, and returns false if ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
