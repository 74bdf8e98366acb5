package fpga

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// vendor is what the engine asks about FPGAs, by one configuration. Its methods run in the
// engine's loop.
type vendor struct {
	log *slog.Logger
	cfg *config
}

// memory is what is remembered of a region. It is replaced, never changed.
type memory struct {
	// lost is what the region was when it had a function, if it lost that.
	lost *driver.Region
	// claim is what it is to have for the containers that start now.
	claim *claim
	// program is what this process put into it; nil if nothing, or if it changed since.
	program *program
}

// program is what was put into a region.
type program struct {
	name, version string
	// failed is why that failed, so that the content of the region is not known, whatever ID
	// it shows, until it is programmed again; nil if it did not.
	failed error
	// state and function are what the region showed afterwards; state is empty until it
	// was read.
	state    driver.State
	function string
}

func memoryOf(d *engine.KnownDevice) memory {
	m, _ := d.Memory.(memory)
	return m
}

// Found implements [engine.Rememberer].
func (vendor) Found(d *engine.KnownDevice, read engine.Device) {
	now, before, m := regionIn(read), regionIn(d.Stable), memoryOf(d)
	switch {
	case now.State != driver.Unloaded:
		m.lost = nil
	case before.State == driver.Loaded:
		m.lost = &before
	}
	if m.program != nil {
		p := *m.program
		if p.state == "" {
			p.state, p.function = now.State, now.Function
		}
		m.program = &p
		if p.state != now.State || p.function != now.Function || p.failed == nil && now.State == driver.Unloaded {
			m.program = nil // another process programmed it, or it had no effect
		}
	}
	d.Memory = m
}

// Lost implements [engine.Rememberer]. A programming that failed is remembered: its remains
// may show any ID.
func (vendor) Lost(d *engine.KnownDevice) {
	if m := memoryOf(d); m.program != nil && m.program.failed == nil {
		m.program = nil
		d.Memory = m
	}
}

// Faults implements [engine.Vendor].
func (v vendor) Faults(d *engine.KnownDevice) (own, shared *sdk.Health) {
	own = v.gravest(regionIn(d.Read).Faults)
	if p := memoryOf(d).program; d.Busy() && p != nil && p.failed != nil {
		own = sdk.Graver(own, sdk.Fault("programming-failed", sdk.RecoveryReset,
			fmt.Sprintf("it is in reset since programming %s failed: %v", p.name, p.failed)))
	}
	if !d.Busy() {
		own = sdk.Graver(own, v.function(d))
	}
	for i, unit := range d.Unit.Board() {
		if i == 0 || !cardIn(unit.Unit).Virtual {
			shared = sdk.Graver(shared, v.ofCard(unit))
		}
	}
	return own, shared
}

// function is the fault of a region that is listed by its function and has none, unless a
// container can have it programmed.
func (v vendor) function(d *engine.KnownDevice) *sdk.Health {
	is := regionIn(d.Stable)
	if v.cfg.classOf(is) != classAF || is.State != driver.Unloaded || v.cfg.programs(is) {
		return nil
	}
	if lost := memoryOf(d).lost; lost != nil {
		return sdk.Fault("function-lost", sdk.RecoverySelf, fmt.Sprintf(
			"the accelerator function %s is no longer loaded: program it again, or see the kernel's log for what happened to it", lost.Function))
	}
	return sdk.Fault("no-function", sdk.RecoverySelf,
		"no accelerator function is loaded: program one, have containers do so (bitstreams), or list the region by its interface (mode region)")
}

// ofCard is the fault of a card.
func (v vendor) ofCard(u *engine.KnownUnit) *sdk.Health {
	worst := v.gravest(cardIn(u.Unit).Faults)
	if v.cfg.Health.Alarms == fault && v.cfg.senses() && !u.Absent() {
		worst = sdk.Graver(worst, v.gravest(sensesIn(u).Faults))
	}
	return worst
}

// gravest is that of the faults that settings do not ignore; nil if there is none.
func (v vendor) gravest(faults []driver.Fault) *sdk.Health {
	var worst *sdk.Health
	for _, f := range faults {
		if !v.cfg.ignores(f) {
			worst = sdk.Graver(worst, sdk.Fault(f.Code, f.Recovery, f.Text))
		}
	}
	return worst
}

// ignores reports whether settings ignore a fault.
func (s *settings) ignores(f driver.Fault) bool {
	return f.Cause != "" && slices.Contains(s.Health.Ignore, f.Cause)
}

// senses reports whether sensors are read although nobody asks for telemetry.
func (c *config) senses() bool { return c.sensors > 0 && c.Health.Alarms != ignore }

func sensesIn(u *engine.KnownUnit) driver.Senses {
	senses, _ := u.Senses.(driver.Senses)
	return senses
}

// Sensed implements [engine.Counter]. It logs new alarms where settings want that.
func (v vendor) Sensed(u *engine.KnownUnit, read any) (changed bool) {
	before := sensesIn(u)
	now, _ := read.(driver.Senses)
	if v.cfg.Health.Alarms == report {
		for _, alarm := range now.Faults {
			raised := func(f driver.Fault) bool { return f.Code == alarm.Code && f.Cause == alarm.Cause }
			if !slices.ContainsFunc(before.Faults, raised) && !v.cfg.ignores(alarm) {
				v.log.Warn("sensor alarm", "card", u.Unit.ID, "code", alarm.Code, "message", alarm.Text)
			}
		}
	}
	return !slices.Equal(before.Implausible, now.Implausible)
}

// Problems implements [engine.Counter]: sensors that report impossible values.
func (vendor) Problems(u *engine.KnownUnit) []string {
	const shown = 3
	names := sensesIn(u).Implausible
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		names, more = names[:shown], fmt.Sprintf(" and %d more", n)
	}
	return []string{fmt.Sprintf("%s: sensors %s%s report impossible values, which are left out of the metrics: check whether the firmware of the card's controller is current",
		u.Unit.ID, strings.Join(names, ", "), more)}
}

// Count implements [engine.Counter].
func (vendor) Count(u *engine.KnownUnit, device string) []*sdk.Metric {
	card := cardIn(u.Unit)
	metrics := counts(device, card.Counts)
	for _, region := range card.Regions {
		metrics = append(metrics, counts(region.ID, region.Counts)...)
	}
	return metrics
}

func counts(device string, all []driver.Count) []*sdk.Metric {
	metrics := make([]*sdk.Metric, 0, len(all))
	for _, c := range all {
		m := sdk.Gauge(device, c.Name, c.Value)
		if c.Grows {
			m = sdk.Counter(device, c.Name, c.Value)
		}
		if c.Label != "" {
			m.Labels = map[string]string{"register": c.Label}
		}
		metrics = append(metrics, m)
	}
	return metrics
}
