package manager

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Read lists the FPGAs and their state.
func (d *Driver) Read() driver.Reading {
	return read(d.sysfs, d.settings, sysfs.Read, func() {})
}

// read is Read; a test changes what files answer, and the tree between the parts of a
// pass.
func read(root string, settings Settings, file func(string, int) ([]byte, error), between func()) driver.Reading {
	r := reader{root: root, devices: filepath.Join(root, "devices"), settings: settings, file: file}
	var cards []driver.Card
	unstable, err := driver.ReadStable(r.list, func(members []member) {
		r.problems = nil
		cards = r.cards(members)
	}, func(a, b member) bool { return a == b }, between)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return driver.Reading{Unloaded: true}
	case err != nil:
		return driver.Reading{Problems: []driver.Problem{{Device: "fpga_manager", Lost: true, Err: err}}}
	}
	slices.SortStableFunc(r.problems, func(a, b driver.Problem) int { return cmp.Compare(a.Device, b.Device) })
	return driver.Reading{Cards: cards, Problems: r.problems, Unstable: unstable}
}
