package fpga

import (
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/fpga/manager"
)

// openers are the drivers by what settings call them, in the order in which they are
// asked: a card that two of them find is the first one's.
var openers = []struct {
	name string
	open func(*config) driver.Driver
}{
	{"dfl", func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.DFL, ioctl.Open) }},
	{"opae", func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.OPAE, ioctl.Open) }},
	{"manager", func(cfg *config) driver.Driver {
		return manager.New(cfg.host, manager.Settings{Firmware: cfg.Manager.Firmware, Flags: cfg.Manager.Flags})
	}},
}

// driverNames are what settings call the drivers.
func driverNames() []string {
	var names []string
	for _, o := range openers {
		names = append(names, o.name)
	}
	return names
}

// drivers are those that settings name.
func drivers(cfg *config) []driver.Driver {
	var all []driver.Driver
	for _, o := range openers {
		if slices.Contains(cfg.Drivers, o.name) {
			all = append(all, o.open(cfg))
		}
	}
	return all
}

// managerSettings are those of the driver manager; see [manager.Settings].
type managerSettings struct {
	Firmware string `json:"firmware"`
	Flags    uint32 `json:"flags"`
}
