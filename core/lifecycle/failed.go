package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

const (
	// codePreparationFailed is that of a device whose preparation for a claim failed.
	codePreparationFailed = "preparation-failed"
	// firstAvoided and maxAvoided bound for how long no new claim gets such a device.
	firstAvoided = time.Minute
	maxAvoided   = 30 * time.Minute
)

// failedPreparations are the devices whose latest preparation failed, of claims with a device that is slow to prepare.
// After such a failure the scheduler allocates the claim again (KEP-5007), and would choose the same device for ever:
//
//	failed ──► avoided: no new claim gets the device, for 1 min ──► the scheduler may choose it
//	             ▲── failed again: twice as long, at most 30 min ────────┘    prepared ──► forgotten
//
// They are not on disk: after a restart of the agent such a device is tried once more. The zero value is ready.
type failedPreparations struct {
	mu  sync.Mutex
	all map[inventory.Key]*failedPreparation
}

type failedPreparation struct {
	// count is the number of failures in a row, at and why are those of the latest.
	count int
	at    time.Time
	why   string
	// avoided is whether no new claim gets the device; it ends at until.
	avoided bool
	until   time.Time
}

// note records the result of a preparation, and reports whether the faults changed.
func (f *failedPreparations) note(devices []inventory.Key, err error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range devices {
		p := f.all[key]
		if err == nil {
			changed = changed || p != nil && p.avoided
			delete(f.all, key)
			continue
		}
		if p == nil {
			p = &failedPreparation{}
			if f.all == nil {
				f.all = map[inventory.Key]*failedPreparation{}
			}
			f.all[key] = p
		}
		p.count++
		p.at, p.why, p.avoided = time.Now(), err.Error(), true
		p.until = p.at.Add(backoff.After(p.count, firstAvoided, maxAvoided))
		changed = true
	}
	return changed
}

// expire lets claims have the devices whose time has passed. next is when it must be called again; zero for never.
func (f *failedPreparations) expire() (changed bool, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for key, p := range f.all {
		switch {
		case p.avoided && now.Before(p.until):
			if next.IsZero() || p.until.Before(next) {
				next = p.until
			}
		case p.avoided:
			p.avoided, changed = false, true
		case now.Sub(p.until) > maxAvoided:
			delete(f.all, key)
		}
	}
	return changed, next
}

// addTo adds the faults of devices that have none of another kind.
func (f *failedPreparations) addTo(faults map[inventory.Key]health.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, p := range f.all {
		if _, ok := faults[key]; ok || !p.avoided {
			continue
		}
		faults[key] = health.Fault{
			Code: codePreparationFailed, Recovery: inventory.RecoverySelf, Reach: inventory.ReachNewHolders, Since: p.at,
			Message: fmt.Sprintf("its preparation for a claim failed, %d times in a row, and no new claim gets it before %s: %s", p.count, p.until.Format(time.TimeOnly), p.why),
		}
	}
}

// isOfDevices reports whether a failed call of Prepare is a reason to avoid its devices: not if it ended with the
// claim, if the backend was not running, or if the parameters are to blame, by the contract.
func isOfDevices(ctx context.Context, err error) bool {
	return err != nil && !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, supervisor.ErrNotRunning) && status.Code(err) != codes.InvalidArgument
}
