package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

var (
	errNoLink    = errors.New("it is no link in its class, as the kernel makes for each device")
	errElsewhere = errors.New("its link in its class leads to no device")
)

// list lists managers and regions, in an order that does not change. It is
// fs.ErrNotExist if the kernel has no FPGA subsystem loaded.
func (r *reader) list() ([]member, error) {
	var all []member
	for _, class := range []struct{ name, prefix string }{{"fpga_manager", "fpga"}, {"fpga_region", "region"}} {
		dir := filepath.Join(r.root, "class", class.name)
		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && class.name == "fpga_region":
			continue // a module of its own, which few need
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", class.name, err)
		}
		for _, e := range entries {
			if !numbered(e.Name(), class.prefix) {
				continue
			}
			m := member{class: class.name, name: e.Name()}
			to, err := os.Readlink(filepath.Join(dir, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			m.dir = filepath.Join(dir, to)
			m.device = filepath.Dir(filepath.Dir(m.dir))
			switch {
			case err != nil:
				m.err = errNoLink
			case !below(m.dir, r.devices) || filepath.Base(filepath.Dir(m.dir)) != class.name || !below(m.device, r.devices):
				m.err = errElsewhere
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// numbered reports whether a name is the prefix and a number.
func numbered(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && rest != "" && len(rest) <= 6 && strings.Trim(rest, "0123456789") == ""
}

// below reports whether a path is in a directory.
func below(path, dir string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }

// others are the drivers of PCI functions whose FPGAs other packages list.
var others = []string{"dfl-pci", "intel-fpga-pci", "xocl", "xclmgmt", "xrt-mgmt"}

// foreign reports whether a device is of a card that another package lists. It is recognized
// by its place, which stays when half of a driver is gone: Intel's are in an engine or
// on its bus, AMD's in a part of XRT; and by the driver of the PCI function.
func (r *reader) foreign(m member) bool {
	for part := range strings.SplitSeq(m.dir[len(r.devices):], string(filepath.Separator)) {
		for _, prefix := range []string{"dfl-", "dfl_", "intel-fpga-", "fmgr."} {
			if strings.HasPrefix(part, prefix) {
				return true
			}
		}
	}
	function, ok := r.function(m.dir)
	if !ok {
		return false
	}
	to, err := os.Readlink(filepath.Join(r.root, "bus", "pci", "devices", function.String(), "driver"))
	return err == nil && slices.Contains(others, filepath.Base(to))
}

// function returns the PCI function that a directory is in; the innermost, for those above
// are bridges.
func (r *reader) function(dir string) (pci.Address, bool) {
	for ; below(dir, r.devices); dir = filepath.Dir(dir) {
		if at, err := pci.ParseAddress(filepath.Base(dir)); err == nil {
			return at, true
		}
	}
	return pci.Address{}, false
}
