package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// release removes the CDI definitions of holders that ended, all at once, and releases their devices.
// Each device has its own goroutine, which tries again until it is released.
func (l *Lifecycle) release(ctx context.Context, all []holders.Ended) {
	devices := make([]inventory.Key, len(all))
	for i, ended := range all {
		devices[i] = ended.Device
	}
	l.undefine(devices)
	for _, ended := range all {
		l.calls.Go(func() {
			pauses := backoff.New(l.opts.ReleaseBackoff, maxDoubled*l.opts.ReleaseBackoff)
			for !l.tryRelease(ctx, ended) && backoff.Sleep(ctx, pauses.Step()) {
			}
		})
	}
}

// tryRelease reports whether nothing is left to do for the device of a holder that ended.
func (l *Lifecycle) tryRelease(ctx context.Context, ended holders.Ended) bool {
	device := ended.Device
	end, shared, err := l.opts.Book.BeginRelease(ctx, device)
	if err != nil {
		return true // ctx ended
	}
	err = l.releaseDevice(ctx, ended, shared, end)
	l.opts.Released(device, err)
	l.unreleased.note(ended, err)
	if err != nil {
		l.log.Warn("device release failed, trying again", "backend", device.Backend, "device", device.ID, "holder", ended.Holder.ID, "error", err)
		return false
	}
	l.log.Debug("device released", "backend", device.Backend, "device", device.ID, "holder", ended.Holder.ID)
	l.opts.Book.Released(ended)
	return true
}

// undefine removes the devices' CDI definitions of holders that ended. If that fails, rounds do it when a
// device is not held any more, and its next holder's Define does it, too.
func (l *Lifecycle) undefine(devices []inventory.Key) {
	if err := l.opts.Definitions.Undefine(devices, l.liveDefinitions(devices...)); err != nil {
		l.log.Warn("CDI definitions of holders that ended remain for now", "devices", devices, "error", err)
	}
}

// releaseDevice has the backend release the device of a holder that ended, also one that it does not list any more:
// it may have made it, or changed its driver. shared reports that another holder has it. end is called when no
// backend works on it any more.
func (l *Lifecycle) releaseDevice(ctx context.Context, ended holders.Ended, shared bool, end func()) error {
	current := l.opts.Round()
	device := current.Device(ended.Device)
	switch {
	case device == nil && !hasReported(current, ended.Device.Backend):
		end()
		return fmt.Errorf("backend %s has not reported its devices yet", ended.Device.Backend)
	case device == nil && !current.Description(ended.Device.Backend).Release, device != nil && !device.Hooks.Release:
		end()
		return nil
	}
	response, err := l.opts.Backends.Release(ctx, ended.Device.Backend, &backendv1.ReleaseRequest{
		Holder: holder(ended.Holder), Devices: []*backendv1.HeldDevice{{Id: ended.Device.ID, Shared: shared}},
	}, end)
	if err != nil {
		return err
	}
	return unreleasedError(ended.Device, response)
}

// hasReported reports whether a backend of the configuration has reported its devices; true for one that
// is no longer configured. Before the first round no backend has.
func hasReported(r *round.Round, backend string) bool {
	return r != nil && (r.Profile.Backend(backend) == nil || r.Backend(backend) != nil)
}

// unreleasedError returns an error unless the backend has released the device.
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

// Problem is something wrong with a device.
type Problem struct {
	Device  inventory.Key
	Message string
}

// Problems returns the devices that could not be released, sorted. What is the same for
// several holders of a device is one problem.
func (l *Lifecycle) Problems() []Problem {
	u := &l.unreleased
	u.mu.Lock()
	defer u.mu.Unlock()
	problems := make([]Problem, 0, len(u.why))
	for ended, why := range u.why {
		problems = append(problems, Problem{ended.Device, "its holder has ended, but its release failed and is tried again: " + why})
	}
	compare := func(a, b Problem) int {
		return cmp.Or(a.Device.Compare(b.Device), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(problems, compare)
	return slices.CompactFunc(problems, func(a, b Problem) bool { return compare(a, b) == 0 })
}
