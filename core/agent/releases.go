package agent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
)

// maxReleaseDoublings bounds the back-off between releases that fail.
const maxReleaseDoublings = 6

// followReleases cleans up after devices whose last holder is gone, until ctx
// ends. What could not be done by then is told of again after a restart.
func (a *Agent) followReleases(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case keys := <-a.book.Released():
			a.released(ctx, keys)
		}
	}
}

// released begins the clean-up of devices that lost their last holder. Each has
// its own goroutine, which ends when the device is clean or has a holder again;
// that holder's end is told of anew.
func (a *Agent) released(ctx context.Context, keys []inventory.Key) {
	for _, key := range keys {
		a.onDuty.Go(func() {
			for failures := 0; !a.tryRelease(ctx, key); failures++ {
				pause := a.opts.Timing.ReleaseBackoff << min(failures, maxReleaseDoublings)
				if !sleep(ctx, pause+rand.N(pause/4+1)) {
					return
				}
			}
		})
	}
}

// tryRelease reports whether nothing is left to do for the device.
func (a *Agent) tryRelease(ctx context.Context, key inventory.Key) bool {
	end, _ := a.gate.begin(releasing, []inventory.Key{key}, a.book.Held)
	for end == nil {
		if a.book.Held(key) || ctx.Err() != nil {
			a.unreleased.note(key, nil)
			return true
		}
		a.gate.await(ctx, key) // it is being reset, which takes its time
		end, _ = a.gate.begin(releasing, []inventory.Key{key}, a.book.Held)
	}
	defer a.poke()
	defer end()
	err := a.release(ctx, key, a.view.Load().device(key))
	a.tally.Released(key.Backend, err)
	a.opts.Released(key.Backend, key.ID, err)
	a.unreleased.note(key, err)
	if err != nil {
		a.log.Warn("release a device, trying again", "backend", key.Backend, "device", key.ID, "error", err)
		return false
	}
	a.log.Debug("device released", "backend", key.Backend, "device", key.ID)
	a.book.Settled(key)
	return true
}

// release does what must follow the last holder; device is nil if it is gone.
func (a *Agent) release(ctx context.Context, key inventory.Key, device *inventory.Device) error {
	if err := a.cdi.Unamend(key); err != nil {
		return fmt.Errorf("remove what Prepare added to its CDI definition: %w", err)
	}
	if device == nil || !device.Hooks.Release {
		return nil
	}
	_, err := a.supervisor.Release(ctx, key.Backend, []string{key.ID})
	return err
}

// unreleased are the devices whose release failed the last time, with why; the zero
// value is ready. It is safe for concurrent use.
type unreleased struct {
	mu  sync.Mutex
	why map[inventory.Key]string
}

// note keeps what became of a release; nil: it is done, or not wanted any more.
func (u *unreleased) note(key inventory.Key, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.why, key)
		return
	}
	if u.why == nil {
		u.why = map[inventory.Key]string{}
	}
	u.why[key] = err.Error()
}

// problems are sentences for status, in the order of the devices.
func (u *unreleased) problems() []status.Problem {
	u.mu.Lock()
	defer u.mu.Unlock()
	problems := make([]status.Problem, 0, len(u.why))
	for key, why := range u.why {
		problems = append(problems, status.Problem{
			Backend: key.Backend, Device: key.ID, Message: "its last holder is gone, but its release fails, and is tried again: " + why,
		})
	}
	slices.SortFunc(problems, func(a, b status.Problem) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Device, b.Device))
	})
	return problems
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
