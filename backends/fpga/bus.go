package fpga

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/alveo"
	"github.com/accelmux/accelmux/backends/fpga/ama"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/pci"
)

// makers lists, for each maker, the settings' names of the drivers that list its cards, how
// to recognize a card on the PCI bus, and how to load its kernel driver.
var makers = []struct {
	drivers []string
	model   func(pci.Device) string
	do      string
}{
	{[]string{"dfl", "opae"}, intel.ModelOf, "load dfl-pci, or OPAE's intel-fpga-pci"},
	{[]string{"ama"}, ama.ModelOf, "load ama_transcoder"},
	{[]string{"xrt"}, func(d pci.Device) string {
		if ama.ModelOf(d) != "" {
			return "" // of the same vendor
		}
		return alveo.ModelOf(d)
	}, "load xocl and xclmgmt"},
}

// ofDrivers are the files that drivers create in the directory of a PCI function. Captures of
// real machines have them, but not the link to the driver.
var ofDrivers = []string{"driver", "fpga_region", "fpga", "user_pf", "mgmt_pf"}

// unbound returns problems for cards on the PCI bus of which no function has a driver.
// Known cards are left out: they have a fault. A virtual function without a driver is no
// problem: it is for a virtual machine.
func unbound(cfg *config, known map[pci.Address]bool) (all []driver.Problem, away map[pci.Address]string) {
	devices, err := pci.OfClass(cfg.host.Sysfs, pci.ProcessingAccelerator)
	if err := pci.Unlisted(devices, err); err != nil {
		return []driver.Problem{{Lost: true, Err: err}}, nil
	}
	away = map[pci.Address]string{}
	for _, maker := range makers {
		if !slices.ContainsFunc(maker.drivers, func(name string) bool { return slices.Contains(cfg.Drivers, name) }) {
			continue
		}
		var boards []pci.Device // a function of each
		bound := map[pci.Address]bool{}
		for _, d := range devices {
			dir := filepath.Join(cfg.host.Sysfs, "bus", "pci", "devices", d.Address.String())
			switch {
			case maker.model(d) == "" || has(dir, "physfn"):
			case known[d.Address] || slices.ContainsFunc(ofDrivers, func(name string) bool { return has(dir, name) }):
				bound[slot(d)] = true
			case len(boards) == 0 || slot(boards[len(boards)-1]) != slot(d):
				boards = append(boards, d)
			}
		}
		boards = slices.DeleteFunc(boards, func(d pci.Device) bool { return bound[slot(d)] })
		if len(boards) == 0 {
			continue
		}
		what := fmt.Sprintf("%d FPGA cards are", len(boards))
		if len(boards) == 1 {
			what = "1 FPGA card is"
		}
		var names []string
		for _, d := range boards {
			away[d.Address] = "it is on the PCI bus without a driver: " + maker.do
			names = append(names, fmt.Sprintf("%s at %s", maker.model(d), d.Address))
		}
		all = append(all, driver.Problem{Device: "PCI", Err: fmt.Errorf("%s on the PCI bus without a driver (%s): %s, or see the kernel's log for why it refuses the card",
			what, strings.Join(names, ", "), maker.do)})
	}
	return all, away
}

func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// slot returns the address of function 0; the functions of a board differ only in that number.
func slot(d pci.Device) pci.Address {
	at := d.Address
	at.Function = 0
	return at
}
