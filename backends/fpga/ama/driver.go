package ama

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// Name is the chips' name in AMD's device plugin: amd.com/MA35.
const Name = "MA35"

// PCI IDs of the chip and of its virtual functions.
const (
	vendor   = 0x10ee
	physical = 0x5070
	virtual  = 0x5071
)

// Driver is the kernel driver of a host. It stores nothing.
type Driver struct{ sysfs string }

var _ driver.Driver = (*Driver)(nil)

// New returns the driver of a host; sysfs is usually /sys.
func New(sysfs string) *Driver { return &Driver{sysfs: filepath.Clean(sysfs)} }

// Name implements [driver.Driver].
func (*Driver) Name() string { return "ama" }

// Sense returns nothing: the driver's sensors are for AMD's tools.
func (*Driver) Sense(driver.Card) driver.Senses { return driver.Senses{} }

// Holds returns false: the chips are not programmed.
func (*Driver) Holds(driver.Region, *bitstream.File) bool { return false }

// Fits returns an error: the chips are not programmed.
func (*Driver) Fits(c driver.Card, _ driver.Region, f *bitstream.File) error {
	return fmt.Errorf("bitstream %s is not for %s, a %s: it is not programmed by bitstreams", f.Path, c.ID, c.Model)
}

// Program implements [driver.Driver]; see [Driver.Fits].
func (d *Driver) Program(_ context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	return driver.UntouchedError{Err: d.Fits(c, r, f)}
}

var errNoReset = errors.New("the driver ama_transcoder has no reset: load it again when no container uses its devices, or power-cycle the node")

// Reset returns an error.
func (*Driver) Reset(_ context.Context, c driver.Card, _ driver.Region) (string, error) {
	return "", fmt.Errorf("reset %s: %w", c.ID, errNoReset)
}

// ModelOf returns the model of a PCI function by its IDs; "" for others.
func ModelOf(d pci.Device) string {
	if d.Vendor == vendor && (d.ID == physical || d.ID == virtual) {
		return "an AMD Alveo MA35D"
	}
	return ""
}
