package fpga

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/alveo"
	"github.com/accelmux/accelmux/backends/fpga/ama"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/fpga/manager"
)

// openers open the drivers by their names in settings.
var openers = map[string]struct {
	// own are the driver's own settings.
	own  func(*config) any
	open func(*config) driver.Driver
}{
	"dfl":  {none, func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.DFL, ioctl.Open) }},
	"opae": {none, func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.OPAE, ioctl.Open) }},
	"xrt":  {func(cfg *config) any { return cfg.XRT }, openXRT},
	"ama":  {none, func(cfg *config) driver.Driver { return ama.New(cfg.host.Sysfs) }},
	"manager": {func(cfg *config) any { return cfg.Manager }, func(cfg *config) driver.Driver {
		return manager.New(cfg.host, manager.Settings{Firmware: cfg.Manager.Firmware, Flags: cfg.Manager.Flags})
	}},
}

func none(*config) any { return nil }

func openXRT(cfg *config) driver.Driver {
	fpgas := alveo.New(cfg.host, cfg.XRT)
	if cfg.XRT.Unit == alveo.UnitBoard {
		return alveo.NewBoards(fpgas)
	}
	return fpgas
}

// opened keeps drivers over changes of settings that do not concern them: some remember
// what a card in reset does not report. It is for one goroutine.
type opened map[string]driver.Driver // by name and own settings

// drivers returns the drivers that settings name.
func (o opened) drivers(cfg *config) []driver.Driver {
	var all []driver.Driver
	for _, name := range driverNames {
		if !slices.Contains(cfg.Drivers, name) {
			continue
		}
		opener := openers[name]
		key := fmt.Sprintf("%s %q %v", name, cfg.host, opener.own(cfg))
		if o[key] == nil {
			o[key] = opener.open(cfg)
		}
		all = append(all, o[key])
	}
	return all
}
