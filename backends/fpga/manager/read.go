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

// tries is how often a machine that changes while it is read is read in all.
const tries = 4

// Read lists the FPGAs and their state.
func (d *Driver) Read() driver.Reading {
	return read(d.sysfs, d.settings, sysfs.Read, func() {})
}

// read is Read; a test changes what files answer, and the tree between the parts of a
// pass.
func read(root string, settings Settings, file func(string, int) ([]byte, error), between func()) driver.Reading {
	for try := 1; ; try++ {
		r := reader{root: root, devices: filepath.Join(root, "devices"), settings: settings, file: file}
		before, err := r.list()
		if errors.Is(err, fs.ErrNotExist) {
			return driver.Reading{Absent: true}
		}
		if err != nil {
			return driver.Reading{Problems: []driver.Problem{{Device: "fpga_manager", Lost: true, Err: err}}}
		}
		between()
		cards := r.cards(before)
		between()
		after, err := r.list()
		torn := err != nil || !slices.Equal(before, after)
		if torn && try < tries {
			continue
		}
		slices.SortStableFunc(r.problems, func(a, b driver.Problem) int { return cmp.Compare(a.Device, b.Device) })
		return driver.Reading{Cards: cards, Problems: r.problems, Unstable: torn}
	}
}
