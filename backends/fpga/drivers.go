package fpga

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/alveo"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/fpga/manager"
)

// openers are the drivers by their names in settings, in the order of their precedence: a
// card that two of them find is the first one's.
var openers = []struct {
	name string
	// own are the driver's own settings.
	own  func(*config) any
	open func(*config) driver.Driver
}{
	{"dfl", none, func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.DFL, ioctl.Open) }},
	{"opae", none, func(cfg *config) driver.Driver { return intel.NewDriver(cfg.host, intel.OPAE, ioctl.Open) }},
	{"xrt", func(cfg *config) any { return cfg.XRT }, func(cfg *config) driver.Driver { return alveo.New(cfg.host, cfg.XRT) }},
	{"manager", func(cfg *config) any { return cfg.Manager }, func(cfg *config) driver.Driver {
		return manager.New(cfg.host, manager.Settings{Firmware: cfg.Manager.Firmware, Flags: cfg.Manager.Flags})
	}},
}

func none(*config) any { return nil }

// driverNames are the names of the drivers in settings.
func driverNames() []string {
	var names []string
	for _, o := range openers {
		names = append(names, o.name)
	}
	return names
}

// opened keeps drivers over changes of settings that do not concern them: some remember
// what a card in reset does not report. It is for one goroutine.
type opened map[string]driver.Driver // by name and own settings

// drivers returns those that settings name.
func (o opened) drivers(cfg *config) []driver.Driver {
	var all []driver.Driver
	for _, opener := range openers {
		if !slices.Contains(cfg.Drivers, opener.name) {
			continue
		}
		key := fmt.Sprintf("%s %q %v", opener.name, cfg.host, opener.own(cfg))
		if o[key] == nil {
			o[key] = opener.open(cfg)
		}
		all = append(all, o[key])
	}
	return all
}

// managerSettings are those of the driver manager; see [manager.Settings].
type managerSettings struct {
	Firmware string `json:"firmware"`
	Flags    uint32 `json:"flags"`
}
