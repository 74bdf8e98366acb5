package fpga

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

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

// function returns the fault of a region that is listed by its function and has none, unless a
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

// ofCard returns the fault of a card.
func (v vendor) ofCard(u *engine.KnownUnit) *sdk.Health {
	worst := v.gravest(cardIn(u.Unit).Faults)
	if v.cfg.Health.Alarms == fault && v.cfg.senses() && !u.Absent() {
		worst = sdk.Graver(worst, v.gravest(sensesIn(u).Faults))
	}
	return worst
}

// gravest returns the gravest fault that settings do not ignore; nil if there is none.
func (v vendor) gravest(faults []driver.Fault) *sdk.Health {
	var worst *sdk.Health
	for _, f := range faults {
		if !v.cfg.ignores(f) {
			worst = sdk.Graver(worst, sdk.Fault(f.Code, f.Recovery, f.Text))
		}
	}
	return worst
}
