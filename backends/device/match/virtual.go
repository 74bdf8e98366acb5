package match

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// Physical is a PCI function that can have virtual functions. Its files are those of
// Documentation/ABI/testing/sysfs-bus-pci of the kernel, and drivers/pci/iov.c.
type Physical struct{ Function }

// Physical returns the physical functions by address, and problems with those that cannot be read.
func (f Finder) Physical() (all []*Physical, problems []Problem) {
	files, _ := fs.Glob(os.DirFS(f.Host.Sysfs), "bus/pci/devices/*/sriov_totalvfs") // the pattern is right
	for _, file := range files {
		name := path.Base(path.Dir(file))
		switch p, err := f.PhysicalAt(name); {
		case err == nil:
			all = append(all, p)
		case !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, Problem{name, err})
		}
	}
	return all, problems
}

// PhysicalAt returns the physical function at an address. The error is fs.ErrNotExist if there is none.
func (f Finder) PhysicalAt(name string) (*Physical, error) {
	o, err := f.FunctionAt(name)
	if err != nil {
		return nil, err
	}
	p := &Physical{Function{Object: *o}}
	p.Address, _ = address(name) // FunctionAt has checked it
	_, err = os.Stat(path.Join(o.sysfs, o.Dir, "sriov_totalvfs"))
	return p, err
}

// FunctionAt returns the PCI function at an address.
func (f Finder) FunctionAt(name string) (*Object, error) {
	if _, ok := address(name); !ok {
		return nil, fmt.Errorf("%q is no PCI address: %w", name, fs.ErrNotExist)
	}
	return f.object("bus/pci/devices/" + name)
}

// Virtual returns the addresses of the virtual functions that there are, by their numbers.
func (p *Physical) Virtual() (map[int]string, error) {
	entries, err := os.ReadDir(path.Join(p.sysfs, p.Dir))
	all := map[int]string{}
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), "virtfn")
		n, wrong := strconv.ParseUint(digits, 10, 16)
		if !ok || wrong != nil {
			continue
		}
		switch at, err := p.Link(entry.Name()); {
		case errors.Is(err, fs.ErrNotExist): // it went meanwhile
		case err != nil:
			return nil, err
		default:
			all[int(n)] = at
		}
	}
	return all, err
}

// Potential returns virtual function n as it would be if it was made: with the vendor and the class of the
// physical one, the device ID that the kernel reports for virtual functions, and what is below physfn. It has
// the driver, unless that is empty. Other files are absent. It is nil if the selector does not match it.
func (p *Physical) Potential(s *Selector, n int, driver string) (*Object, error) {
	o := Object{sysfs: p.sysfs, potential: &potential{&p.Object, driver}}
	ok, err := s.PCI.matches(&Function{Object: o})
	if errors.Is(err, fs.ErrNotExist) { // the kernel does not report what is asked for
		ok, err = false, nil
	}
	if err != nil || !ok {
		return nil, err
	}
	at, err := p.virtualAddress(uint64(n)) //nolint:gosec // not negative
	o.Name, o.Dir = at.String(), path.Join(path.Dir(p.Dir), at.String())
	return &o, err
}

// virtualAddress returns the address that virtual function n has, or will have.
func (p *Physical) virtualAddress(n uint64) (pci.Address, error) {
	at := p.Address
	offset, err := p.Uint("sriov_offset")
	if err != nil {
		return at, err
	}
	stride, err := p.Uint("sriov_stride")
	if err != nil {
		return at, err
	}
	id := routingID(at) + offset + n*stride
	if offset == 0 || n > 0 && stride == 0 || id > 0xffff {
		return at, fmt.Errorf("its sriov_offset %d and sriov_stride %d do not show the address that its virtual function %d will have", offset, stride, n)
	}
	at.Bus, at.Device, at.Function = uint8(id>>8), uint8(id>>3&0x1f), uint8(id&7)
	return at, nil
}

// potential is what a virtual function has before it is made.
type potential struct {
	physical *Object
	driver   string
}

// IsPotential reports whether the object is a virtual function that is described as it would be.
func (o *Object) IsPotential() bool { return o.potential != nil }

// path returns the path of a file.
func (v *potential) path(file string) (string, error) {
	switch below, ok := strings.CutPrefix(file, "physfn/"); {
	case ok:
		return v.physical.Path(below)
	case file == "physfn":
		return path.Join(v.physical.sysfs, v.physical.Dir), nil
	case file == "vendor", file == "class":
		return v.physical.Path(file)
	case file == "device":
		return v.physical.Path("sriov_vf_device")
	}
	return "", &fs.PathError{Op: "read", Path: file, Err: fs.ErrNotExist}
}

// link is [Object.Link].
func (v *potential) link(file string) (string, error) {
	below, ok := strings.CutPrefix(file, "physfn/")
	switch {
	case ok:
		return v.physical.Link(below)
	case file == "physfn":
		return path.Base(v.physical.Dir), nil
	case file == "driver" && v.driver != "":
		return v.driver, nil
	}
	return "", &fs.PathError{Op: "read", Path: file, Err: fs.ErrNotExist}
}

// names is [Object.Names].
func (v *potential) names(pattern string) ([]string, error) {
	if below, ok := strings.CutPrefix(pattern, "physfn/"); ok {
		return v.physical.Names(below)
	}
	return nil, nil
}
