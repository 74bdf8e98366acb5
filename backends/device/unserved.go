package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
)

// unserved returns a problem for hardware of the kind that is in a state in which it is no device: without a driver, or, for
// a kind of VFIO, with the node's own. What another program's driver has, such as VFIO for virtual machines, was given to it
// on purpose. Listed are this scan's units, known those of earlier ones, also of other kinds, whose devices have faults of
// their own.
func (s source) unserved(listed, known []engine.Unit) (problems []engine.Problem) {
	if s.kind.Hardware == nil {
		return nil
	}
	has := map[pci.Address]bool{}
	for _, u := range slices.Concat(listed, known) {
		for _, d := range u.Devices {
			for _, at := range d.Functions {
				has[at] = true
			}
		}
	}
	found, _ := s.finder.Find(&match.Selector{PCI: s.kind.Hardware.PCI}) // what cannot be read cannot be judged
	slices.SortStableFunc(found, (*match.Object).Compare)
	devices := map[string]bool{}
	if by := s.kind.Match.PCI; by != nil {
		withAnyDriver := *by
		withAnyDriver.Drivers = nil
		could, _ := s.finder.Find(&match.Selector{PCI: &withAnyDriver})
		for _, o := range could {
			devices[o.Name] = true
		}
	}
	var states []string
	in := map[string][]string{}
	for _, o := range found {
		f, err := o.Function()
		if err != nil || has[f.Address] {
			continue
		}
		if state := stateOf(f, s.kind.Hardware, devices[f.Name]); state != "" {
			if in[state] == nil {
				states = append(states, state)
			}
			in[state] = append(in[state], f.Name)
		}
	}
	for _, state := range states {
		more := ""
		if n := len(in[state]) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		problems = append(problems, engine.Problem{Device: in[state][0], Err: s.wrong(fmt.Errorf("it is not listed%s: %s", more, state))})
	}
	return problems
}

// lacksClass reports whether the kernel does not have the class of the kind: no driver that makes one is loaded.
func (s source) lacksClass() bool {
	if s.kind.Match.Class == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(s.cfg.host.Sysfs, "class", s.kind.Match.Class))
	return errors.Is(err, fs.ErrNotExist)
}

// stateOf returns why a function is no device, and what to do; empty if it is as it should be, or was given to another
// program. isDevice: with another driver it would be one itself; otherwise it is a card with virtual functions that would.
func stateOf(f *match.Function, h *description.Hardware, isDevice bool) string {
	driver, err := f.Driver()
	if err != nil {
		return ""
	}
	drivers := strings.Join(h.Drivers, " or ")
	if !slices.ContainsFunc(h.Drivers, match.IsVFIO) {
		// A virtual function without a driver is for a virtual machine.
		if virtual, err := f.Has("physfn"); err != nil || virtual || driver != "" {
			return ""
		}
		return fmt.Sprintf("no driver is bound to it: load the module of %s; if it is loaded, see the kernel's log", drivers)
	}
	if !isDevice {
		total, err := f.Uint("sriov_totalvfs")
		n, wrong := f.Uint("sriov_numvfs")
		switch {
		case err != nil || wrong != nil || total == 0 || n > 0 || match.IsVFIO(driver):
			return ""
		case driver == "":
			return fmt.Sprintf("no driver is bound to it: load the module of the card, make virtual functions (sriov_numvfs), and bind these to %s", drivers)
		}
		return fmt.Sprintf("containers get only virtual functions, and it has none: write their number, at most %d, to /sys/bus/pci/devices/%s/sriov_numvfs, and bind them to %s", total, f.Name, drivers)
	}
	switch {
	case driver == "":
		return fmt.Sprintf("no driver is bound to it: bind it to %s", drivers)
	case match.IsVFIO(driver) || driver == "pci-stub" || driver == "pci-pf-stub":
		return ""
	}
	return fmt.Sprintf("it is bound to the driver %s: bind it to %s instead", driver, drivers)
}
