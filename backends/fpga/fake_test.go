package fpga

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// IDs of accelerator functions and of an interface.
const (
	functionA = "d8424dc4a4a3c413f89e433683f9040b"
	functionB = "9aeffe5f84570612c000c9660d824272"
	fits      = "9346116da52d5ca8b06aa9a389ef7c8d"
)

// fake is a driver whose cards a test sets.
type fake struct {
	t *testing.T

	mu      sync.Mutex
	reading driver.Reading
	senses  map[string]driver.Senses
	// reads counts readings.
	reads int
	// programmed and resets are the regions that were programmed and reset, in order.
	programmed, resets []string
	// program, if set, replaces the usual programming, and may call it. The lock is not held.
	program func(ctx context.Context, usual func() error) error
	reset   func(ctx context.Context) error
	misfit  error
}

func (*fake) Name() string { return "dfl" }

func (f *fake) Read() driver.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	r := f.reading
	r.Cards = nil
	for _, c := range f.reading.Cards {
		c.Regions = slices.Clone(c.Regions)
		r.Cards = append(r.Cards, c)
	}
	r.Problems = slices.Clone(r.Problems)
	return r
}

func (f *fake) Sense(c driver.Card) driver.Senses {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.senses[c.ID]
}

func (f *fake) Fits(driver.Card, driver.Region, *bitstream.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.misfit
}

func (f *fake) Holds(r driver.Region, file *bitstream.File) bool {
	return file.Kind == bitstream.GBS && r.Function == file.Accelerators[0].ID.Hex()
}

func (f *fake) Program(ctx context.Context, c driver.Card, r driver.Region, file *bitstream.File) error {
	usual := func() error {
		f.change(func() {
			f.programmed = append(f.programmed, r.ID+" "+filepath.Base(file.Path))
			if at := f.region(c.ID, r.Number); file.Kind == bitstream.GBS {
				at.State, at.Function = driver.Loaded, file.Accelerators[0].ID.Hex()
				at.Loaded = "af-" + at.Function
			} else {
				at.State, at.Function, at.Loaded = driver.Unreported, "", ""
			}
		})
		return nil
	}
	f.mu.Lock()
	program := f.program
	f.mu.Unlock()
	if program != nil {
		return program(ctx, usual)
	}
	return usual()
}

func (f *fake) Reset(ctx context.Context, c driver.Card, r driver.Region) (string, error) {
	f.mu.Lock()
	reset := f.reset
	f.mu.Unlock()
	if reset != nil {
		if err := reset(ctx); err != nil {
			return "", err
		}
	}
	f.change(func() {
		f.resets = append(f.resets, r.ID)
		f.region(c.ID, r.Number).Faults = nil
		f.card(c.ID).Faults = nil
	})
	return "reset of " + r.ID, nil
}

// change changes the machine.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// card returns the card with an ID; the caller holds the lock.
func (f *fake) card(id string) *driver.Card {
	for i := range f.reading.Cards {
		if f.reading.Cards[i].ID == id {
			return &f.reading.Cards[i]
		}
	}
	f.t.Errorf("no card %s", id)
	return &driver.Card{}
}

// region returns a region of a card; the caller holds the lock.
func (f *fake) region(card string, number int) *driver.Region {
	regions := f.card(card).Regions
	for i := range regions {
		if regions[i].Number == number {
			return &regions[i]
		}
	}
	f.t.Errorf("card %s has no region %d", card, number)
	return &driver.Region{}
}

// done returns the regions that were programmed and reset until now.
func (f *fake) done() (programmed, resets []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.programmed), slices.Clone(f.resets)
}

// port returns a region with a function.
func port(card string, number int, function string) driver.Region {
	r := driver.Region{
		ID: fmt.Sprintf("%s-port%d", card, number), Number: number, Interface: fits, Kind: driver.Port, State: driver.Unloaded,
		Name: "region-" + fits, Nodes: []string{fmt.Sprintf("/dev/%s.%d", card, number)}, Programmable: true,
	}
	if function != "" {
		r.State, r.Function, r.Loaded = driver.Loaded, function, "af-"+function
	}
	return r
}

// cardOf returns a card with regions at a PCI address.
func cardOf(id string, bus uint8, regions ...driver.Region) driver.Card {
	return driver.Card{
		ID: id, Board: id, Model: "Test card", Management: []string{"/dev/" + id + "-fme"}, Regions: regions, Dir: "devices/" + id,
		PCI: &pci.Device{Address: pci.Address{Bus: bus}, NUMANode: 1, Driver: "dfl-pci"},
	}
}

// count returns the number of readings.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}
