package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Options are what an engine is made with.
type Options struct {
	Log *slog.Logger
	// Hardware, Unit and Part are nouns for messages: "FPGA", "card", "region". Codes of
	// faults begin with the latter two in lower case: "card-gone", "region-incomplete".
	Hardware, Unit, Part string
	// Listen subscribes to uevents, as [uevent.Listen] does.
	Listen func(want func(uevent.Event) bool) (*uevent.Listener, error)
	// Concerns reports whether an event may be about a device or a driver of the vendor.
	Concerns func(uevent.Event) bool
	// ExclusiveReset: a driver is neither scanned during a reset, nor resets two units at
	// once, since it resets no unit that this process has open.
	ExclusiveReset bool
}

// Settings are a configuration as the engine uses it. They are never changed.
type Settings struct {
	Vendor Vendor
	// Drivers are in the order of their precedence.
	Drivers []Driver
	// Interval is the time between scans, Polling the least time between polls of a [Poller] (more
	// than 0), Sensing that between readings of sensors; 0: they are read only for telemetry.
	Interval, Polling, Sensing time.Duration
	// SensesRequired: a device is not healthy without a reading of its unit's sensors; see
	// the package comment. It needs Sensing.
	SensesRequired bool
	Checks         []Check
	// Monitor, if set, runs beside the loop while the settings apply; its context ends then.
	// It waits for events that come in other ways than uevents, and passes them to the loop
	// with [Engine.Do].
	Monitor func(ctx context.Context)
	// Sysfs is the root of sysfs.
	Sysfs string
}

// Check is a periodic check of something other than devices.
type Check struct {
	// Every is the time between runs; 0: Settings.Interval.
	Every time.Duration

	// What identifies the check, and begins the problem that is reported when it hangs:
	// "opening the directory /x".
	What string
	// Hung ends that problem.
	Hung string
	// Run is called beside the loop, with a context that ends with the loop. Its error is
	// reported as a problem. It may pass what it finds to the loop with [Engine.Do].
	Run func(ctx context.Context) error
}

// Engine monitors devices. Make it with [New], and give it [Settings] before Watch.
type Engine struct {
	options Options
	asks    sdk.Asks[*loop]
	// units allows one operation per unit, measuring one telemetry reading per unit.
	units, measuring exclusive

	mu       sync.Mutex
	settings *Settings
}

// New returns an engine.
func New(options Options) *Engine {
	return &Engine{options: options, asks: make(sdk.Asks[*loop])}
}

// Configure sets the settings. The loop applies them when [sdk.Reporter.Reconfigured]
// fires.
func (e *Engine) Configure(s *Settings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings = s
}

func (e *Engine) configured() *Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings
}

// Enter waits until no operation runs on the units, and reserves them until leave is called.
func (e *Engine) Enter(ctx context.Context, units ...string) (leave func(), err error) {
	var leaves []func()
	leave = func() {
		for _, leave := range leaves {
			leave()
		}
	}
	for _, unit := range slices.Compact(slices.Sorted(slices.Values(units))) { // all enter in one order
		one, err := e.units.enter(ctx, unit)
		if err != nil {
			leave()
			return nil, fmt.Errorf("another operation on the %s %s has not ended: %w", e.options.Unit, unit, err)
		}
		leaves = append(leaves, one)
	}
	return leave, nil
}
