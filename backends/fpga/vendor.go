package fpga

import (
	"log/slog"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// vendor decides for the engine about FPGAs, by one configuration. Its methods run in the
// engine's loop.
type vendor struct {
	log *slog.Logger
	cfg *config
}

// memory has what is remembered of a region. It is replaced, never changed.
type memory struct {
	// lost is the region as it was with its function, if it lost that.
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

// claim is what a region is to have for the containers that start now. Of two that ask for
// different files at once, the later one is refused, so that it does not replace what the
// first one gets.
type claim struct {
	name, version string
	// holders is the number of calls that have it.
	holders int
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

// Forget implements [engine.Rememberer]. A programming that failed is remembered: its remains
// may show any ID.
func (vendor) Forget(d *engine.KnownDevice) {
	if m := memoryOf(d); m.program != nil && m.program.failed == nil {
		m.program = nil
		d.Memory = m
	}
}

// cardIn and regionIn return what a source has put into a unit and a device.
func cardIn(u engine.Unit) driver.Card {
	card, _ := u.Vendor.(driver.Card)
	return card
}

func regionIn(d engine.Device) driver.Region {
	r, _ := d.Vendor.(driver.Region)
	return r
}
