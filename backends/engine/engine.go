package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Options are what an engine is made with.
type Options struct {
	Log *slog.Logger
	// Hardware, Unit and Part are nouns for messages: "FPGA", "card", "region". Codes of
	// faults begin with the latter two: "card-gone", "region-incomplete".
	Hardware, Unit, Part string
	// Listen subscribes to uevents, as [uevent.Listen] does.
	Listen func(want func(uevent.Event) bool) (*uevent.Listener, error)
	// Concerns reports whether an event may be about a device or a driver of the vendor.
	Concerns func(uevent.Event) bool
}

// Settings are what a configuration means. They are never changed.
type Settings struct {
	Vendor Vendor
	// Drivers are in the order of their precedence.
	Drivers []Driver
	// Interval is the time between scans, Sensing that between readings of sensors; 0:
	// they are read only for telemetry.
	Interval, Sensing time.Duration
	// Checks run after each Interval.
	Checks []Check
	// Sysfs is the root of sysfs.
	Sysfs string
}

// Check is a periodic check of something other than devices.
type Check struct {
	// What identifies the check, and begins the problem that is reported when it hangs:
	// "opening the directory /x".
	What string
	// Hung ends that problem.
	Hung string
	// Run is called beside the loop. Its error is reported as a problem.
	Run func() error
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

// Do has the loop run f and waits for it, at most until ctx ends. F must not block. Device
// returns a known device by ID; nil if there is none.
func (e *Engine) Do(ctx context.Context, f func(device func(id string) *KnownDevice)) error {
	_, err := sdk.InLoop(ctx, e.asks, func(l *loop) bool {
		f(l.roster.device)
		return true
	})
	return err
}

// Enter waits until no operation runs on a unit, and reserves it until leave is called.
func (e *Engine) Enter(ctx context.Context, unit string) (leave func(), err error) {
	leave, err = e.units.enter(ctx, unit)
	if err != nil {
		return nil, fmt.Errorf("another operation on the %s %s has not ended: %w", e.options.Unit, unit, err)
	}
	return leave, nil
}
