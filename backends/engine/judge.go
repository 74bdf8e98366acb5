package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// busyLimit is how long a device may be busy before it needs a reset.
const busyLimit = 2 * time.Minute

// health returns the health of a device.
func (l *loop) health(d *KnownDevice, now time.Time) *sdk.Health {
	own, shared := l.set.Vendor.Faults(d)
	if d.awaited(now) {
		return sdk.Fault("resetting", sdk.RecoverySelf, "it was reset and does not answer yet")
	}
	own = sdk.Graver(own, stuck(d.busy, now))
	// Of equal faults the first counts: an operation explains the others.
	worst := sdk.Graver(d.operation.fault(), stuck(d.Unit.resetting, now))
	for _, found := range []*sdk.Health{d.Unit.absent, d.missing, own, shared} {
		worst = sdk.Graver(worst, found)
	}
	d.ownFault = d.ownFault || own.GetRecovery() > sdk.RecoverySelf
	s := d.Unit.source
	switch {
	case isFault(worst):
		return worst
	case s.hung:
		return sdk.Unknown(fmt.Sprintf("the read that began at %s has not returned: the driver hangs; see the kernel log",
			s.scanning.UTC().Format(time.RFC3339)))
	case s.senses && d.Unit.readings.hung(now):
		return sdk.Unknown(fmt.Sprintf("the read of its sensors that began at %s has not returned: the driver hangs; see the kernel log",
			d.Unit.readings.since.UTC().Format(time.RFC3339)))
	case worst.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN:
		return worst
	case d.renewed && isFault(d.reported): // what was healthy stays so until it was scanned
		return sdk.Fault("resetting", sdk.RecoverySelf, "it was reset, or its driver reloaded, and is not yet known to be healthy")
	case d.recovered:
		return sdk.Recovered()
	case own != nil:
		return own
	}
	return healthy
}

// healthy is the health of most devices: equal to itself without a look into it.
var healthy = sdk.Healthy()

// stuck returns the fault of what is busy since a time; nil if that is zero.
func stuck(since, now time.Time) *sdk.Health {
	switch {
	case since.IsZero():
		return nil
	case now.Before(since.Add(busyLimit)):
		return sdk.Fault("resetting", sdk.RecoverySelf, "it is in reset, or is being programmed, and comes back on its own")
	}
	return sdk.Fault("reset-failed", sdk.RecoveryReset, fmt.Sprintf(
		"it is in reset, or is being programmed, since %s, and does not come back on its own: see the kernel's log, reset it again, or reboot the node",
		since.UTC().Format(time.RFC3339)))
}

// fault returns the fault of a device with the operation; nil if there is none.
func (o *operation) fault() *sdk.Health {
	switch {
	case o == nil:
		return nil
	case o.reset:
		return sdk.Fault("resetting", sdk.RecoverySelf, "it is being reset: what ran on it is lost")
	case o.abandoned:
		return sdk.Fault("programming", sdk.RecoverySelf, fmt.Sprintf(
			"%s since %s. It exceeded the time limit of a container start. The device stays unavailable until it ends. If it does not end, see the kernel log.",
			o.what, o.since.UTC().Format(time.RFC3339)))
	}
	return nil
}

// programming reports whether the health of the device stays as reported: it is being
// programmed for a container, which waits for that.
func (d *KnownDevice) programming() bool {
	return d.operation != nil && !d.operation.reset && !d.operation.abandoned && d.reported != nil
}

// list returns all devices in a stable order, those that could not be looked at, and problems.
func (l *loop) list() (devices []*sdk.Device, unread []*sdk.Unread, problems []string) {
	counter, counts := l.set.Vendor.(Counter)
	expander, expands := l.set.Vendor.(Expander)
	for _, known := range l.roster.sorted() {
		if counts {
			problems = append(problems, counter.Problems(known)...)
		}
		unknown := ""
		for _, d := range known.sorted() {
			if d.reported == nil {
				continue // it is listed when its health is known
			}
			device, more := l.device(d)
			message := d.reported.GetMessage()
			// One problem for all devices of the unit; a scan that hangs has its own.
			if d.reported.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN && message != unknown && !known.source.hung {
				unknown = message
				problems = append(problems, fmt.Sprintf("%s: the health of the %s is unknown; the last known health applies: %s",
					known.Unit.ID, l.options.Hardware, message))
			}
			problems = append(problems, more...)
			all := []*sdk.Device{device}
			if expands {
				all, more = expander.Expand(d, device)
				problems = append(problems, more...)
			}
			if err := known.source.last.Err; err != nil && !isFault(d.reported) {
				unread = append(unread, named(all, err)...)
				continue
			}
			devices = append(devices, all...)
		}
	}
	l.unlink(devices)
	return devices, append(unread, l.unlisted()...), problems
}

// unlink leaves out links to devices that are not listed.
func (l *loop) unlink(devices []*sdk.Device) {
	listed := map[string]bool{}
	for _, d := range devices {
		listed[d.GetId()] = true
	}
	gone := func(link *sdk.Link) bool { return !listed[link.GetPeerId()] }
	for _, d := range devices {
		if slices.ContainsFunc(d.Links, gone) {
			d.Links = slices.DeleteFunc(slices.Clone(d.Links), gone)
		}
	}
}

// device returns a device as the core gets it, and problems.
func (l *loop) device(d *KnownDevice) (*sdk.Device, []string) {
	device, problems := l.set.Vendor.List(d)
	device.Id, device.Health, device.Edits = d.Stable.ID, d.reported, d.Read.Edits
	device.ResetGroup = d.Stable.ResetGroup
	if at := d.Unit.Unit.PCI; at != nil {
		device.PciBusId = at.Address.String()
		if at.NUMANode >= 0 {
			device.NumaNodes = []uint32{uint32(at.NUMANode)}
		}
	}
	// What is absent or busy may have no nodes either: that is not what is wrong.
	if d.Read.EditsErr != nil && d.Unit.absent == nil && d.missing == nil && d.busy.IsZero() {
		device.Health = sdk.Graver(d.reported, sdk.Fault("node-missing", sdk.RecoverySelf, d.Read.EditsErr.Error()))
	}
	return device, problems
}
