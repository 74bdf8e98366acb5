package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// binding is a PCI function that Prepare bound to a driver, and how it was before.
type binding struct {
	Function string `json:"function"`
	Driver   string `json:"driver"`
	// Before is the driver, Override the text of driver_override before; empty for none.
	Before   string `json:"before"`
	Override string `json:"override"`
}

// bus has the PCI functions of a sysfs.
type bus struct {
	sysfs string
	// write is [sysfs.Write], except in tests.
	write func(path, text string) error
}

func (b bus) file(function, name string) string {
	return filepath.Join(b.sysfs, "bus/pci/devices", function, name)
}

// bindingTo returns what a function is before it is bound to a driver; nil if it is bound to it.
func (b bus) bindingTo(driver string, f *match.Function) (*binding, error) {
	before, err := f.Driver()
	if err != nil || before == driver {
		return nil, err
	}
	override, err := b.override(f.Name)
	return &binding{Function: f.Name, Driver: driver, Before: before, Override: override}, err
}

// override returns the driver that alone may have a function; empty for any.
func (b bus) override(function string) (string, error) {
	text, err := sysfs.Text(b.file(function, "driver_override"))
	if errors.Is(err, fs.ErrNotExist) || text == "(null)" { // printf of the kernel
		return "", nil
	}
	return text, err
}

// driver returns the driver of a function; empty for none.
func (b bus) driver(function string) (string, error) {
	f := match.Function{Object: *match.Root(b.file(function, ""))}
	return f.Driver()
}

// set has a function bound to a driver, or to none.
func (b bus) set(function, driver string) error {
	now, err := b.driver(function)
	if err != nil || now == driver {
		return err
	}
	// A line end alone means any driver.
	if err := b.write(b.file(function, "driver_override"), driver+"\n"); err != nil {
		return err
	}
	if now != "" {
		if err := b.write(b.file(function, "driver/unbind"), function); err != nil {
			return fmt.Errorf("take it from the driver %s: %w", now, err)
		}
	}
	if driver == "" {
		return nil
	}
	if err := b.write(filepath.Join(b.sysfs, "bus/pci/drivers_probe"), function); err != nil {
		return err
	}
	now, err = b.driver(function)
	if err == nil && now != driver {
		err = errors.New("the kernel did not do it: is the driver loaded? See the kernel's log")
	}
	return err
}

// bind binds a function to a driver, unless it is.
func (b bus) bind(function, driver string) error {
	if err := b.set(function, driver); err != nil {
		return fmt.Errorf("bind %s to %s: %w", function, driver, err)
	}
	return nil
}

// undo makes a function what it was before, unless it went or has another driver meanwhile. Without a
// driver it was left by a bind, or an undo, that failed.
func (b bus) undo(was binding) error {
	if _, err := os.Stat(b.file(was.Function, "")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	now, err := b.driver(was.Function)
	if err == nil && (now == was.Driver || now == "") {
		err = b.set(was.Function, was.Before)
	}
	var override string
	if err == nil {
		override, err = b.override(was.Function)
	}
	if ours := override == was.Driver || override == was.Before; err == nil && ours && override != was.Override {
		err = b.write(b.file(was.Function, "driver_override"), was.Override+"\n")
	}
	switch {
	case err == nil:
		return nil
	case was.Before == "":
		return fmt.Errorf("take %s from the driver %s again: %w", was.Function, was.Driver, err)
	}
	return fmt.Errorf("bind %s to %s again: %w", was.Function, was.Before, err)
}
