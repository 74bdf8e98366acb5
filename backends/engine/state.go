package engine

import (
	"context"
	"errors"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The loop's state. Each of the other files has one stage of its processing.

// loop owns the state of all devices. Work that waits for hardware runs beside it, and posts a
// function that the loop runs.
type loop struct {
	*Engine
	out     *sdk.Reporter
	set     *Settings
	sources []*source
	roster  *roster
	checks  []*check
	results chan func()
	ended   chan struct{}
	// endMonitor ends [Settings.Monitor].
	endMonitor context.CancelFunc
	kernel     *uevent.Subscription
	// changed: there is something to publish. published: something was.
	changed, published bool
	waiters            []*waiter
}

// post has the loop run a function, unless the loop has ended.
func (l *loop) post(result func()) {
	select {
	case l.results <- result:
	case <-l.ended:
	}
}

// source has one driver scanned.
type source struct {
	driver Driver
	// rank is the place of the driver in the settings.
	rank int
	// scanning is the time at which the scan in progress began; zero if there is none.
	scanning time.Time
	hung     bool
	// exclusive is the operation during which there are no scans; nil if there is none.
	exclusive *operation
	// begun counts the scans.
	begun uint64
	// last is the scan that was accepted last; its number is 0 if there was none.
	last scan
	// lastScan is when the last scan began that was no poll.
	lastScan time.Time
	// periodic is the time of the next periodic scan, requested that of an additional one,
	// as after an event; zero if there is none. nextPoll is that of the next poll; see [source.polls].
	periodic, requested, nextPoll time.Time
	// candidate is the identity of a scan to be confirmed, unconfirmed the number of such
	// scans in a row.
	candidate   string
	unconfirmed int
	// unstable is the number of consecutive scans that saw a change in progress,
	// unstableProblems are those of the last one.
	unstable         int
	unstableProblems []string
	// incomplete is the number of consecutive scans that found something missing.
	incomplete int
	// senses: the driver is a [Senser], and readings are required.
	senses bool
	// duplicates are problems of units and devices whose IDs others have.
	duplicates []string
}

// scan is the result of one scan.
type scan struct {
	Scan
	set *Settings
	// number counts the scans and polls of the source from 1.
	number uint64
	// polled: it was a poll. rescan: the next scan comes at the interval, as this one was asked for by
	// an event, or is the first with its settings.
	polled, rescan bool
	// slots: for each known unit that the scan lacks, by ID, what occupies its place.
	slots map[string]slot
}

// slot is the place of a unit, such as a PCI address.
type slot struct {
	// occupied: something is there. unplugged: the hardware is gone, too.
	occupied, unplugged bool
	// pci is what the bus reports; nil for a unit that is not on PCI, or does not answer.
	pci *pci.Device
	err error // why it does not answer
}

// check is a [Check] in progress or to come.
type check struct {
	Check
	// since is the time at which the run in progress began; zero if there is none. nextRun is
	// that of the next one.
	since, nextRun time.Time
	hung           bool
	err            error // of the last run
}

// roster has the units of the node and their devices, so that one that fails keeps its
// identity.
type roster struct {
	options Options
	units   map[string]*KnownUnit // by ID
	// unplugged are the IDs of units that were: what comes back by one is other hardware, or was set up again.
	unplugged map[string]bool
}

// KnownUnit is a unit that was found. It may be used only in the loop.
type KnownUnit struct {
	// Unit is the last reading, without the devices that are missing in it.
	Unit Unit
	// Senses is [Senses.Vendor] of the last reading of the sensors; nil before the first.
	Senses any
	// Memory is the vendor's own, for what it remembers of the unit.
	Memory any

	roster *roster
	source *source
	// absent is why the last scan did not find it; nil if it did.
	absent *sdk.Health
	// released: the driver released the unit, so it sets it up again if it comes back.
	released bool
	// pluggedAgain: it was unplugged before it was found.
	pluggedAgain bool
	devices      map[string]*KnownDevice // by ID
	readings     readings
	// resetting is the time at which the driver began to reset the unit on its own; zero if
	// it does not.
	resetting time.Time
	// renewals is the number of resets and reloads of the driver.
	renewals uint64
}

// readings are those of the sensors of a unit.
type readings struct {
	// since is the time at which the periodic one in progress began, zero if there is none;
	// next is that of the next one.
	since, next time.Time
	// begun counts those that were begun, and last is the number of the last that returned;
	// those up to ignored began before a reset or reload of the driver.
	begun, last, ignored uint64
	// returned: one returned, be it that the sensors were unavailable.
	returned bool
}

// KnownDevice is a device that was found. It may be used only in the loop.
type KnownDevice struct {
	Unit *KnownUnit
	// Read is the last reading, Stable the last one in which the device was not busy.
	Read, Stable Device
	// Memory is what a [Rememberer] remembers of the device. Replace it, never change it in
	// place: targets share it.
	Memory any

	// missing is why the last scan of its unit lacks it; nil if it does not.
	missing *sdk.Health
	// busy is the time since when it is busy; zero if it is not.
	busy time.Time
	// operation is the one of this process that is in progress, or that no scan has followed.
	operation *operation
	// renewed: it was reset, or its driver reloaded. A scan with a number above renewedAt,
	// and a reading of required sensors, sets recovered, which lasts until the next fault.
	renewed   bool
	renewedAt uint64
	recovered bool
	// resetAt is the time of a reset after which it has not answered yet; see awaited.
	resetAt time.Time
	// stableAt is the number of the last scan that read it, and not busy.
	stableAt uint64
	// ownFault: since it was last recovered it had a fault of its own that needs a reset, a reboot or a replacement.
	ownFault bool
	// reported is the health that was published.
	reported *sdk.Health
}

func newRoster(o Options) *roster {
	return &roster{options: o, units: map[string]*KnownUnit{}, unplugged: map[string]bool{}}
}

// operation is one in progress, or one that no scan has followed.
type operation struct {
	what  string
	reset bool
	since time.Time
	// ended: Do has returned; a scan with a number above endedAt shows the result.
	// abandoned: the caller no longer waits.
	ended, abandoned bool
	endedAt          uint64
	// idle, if not nil, is closed when the scan ends that was in progress when the operation
	// began.
	idle chan struct{}
}

// waiter waits for scans of devices that begin later than it.
type waiter struct {
	ctx context.Context
	// begun and readings are the numbers of the scans and of the readings of sensors that
	// began before, by device.
	begun, readings map[string]uint64
	devices         []string
	// back: the devices must be present, and not busy.
	back bool
	seen chan Seen
}

// Seen is what a scan found, as it was published, by the IDs of devices.
type Seen struct {
	Devices map[string]*sdk.Device
	Targets map[string]Target
	// Err is [Scan.Err] of the scan: the rest is what earlier ones found.
	Err error
}

// Healthy returns an error unless the device is healthy; after a reset, unless there is
// evidence that it recovered.
func (s Seen) Healthy(id string, reset bool) error {
	d := s.Devices[id]
	h := d.GetHealth()
	switch {
	case s.Err != nil:
		return s.Err
	case d == nil:
		return errors.New("the device is no longer listed")
	case h.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY:
		return errors.New(h.GetMessage())
	case reset && !h.GetRecovered():
		return errors.New("there is no evidence that it recovered")
	}
	return nil
}
