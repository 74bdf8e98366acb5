package match

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// Function is a PCI function.
type Function struct {
	Object
	Address pci.Address
}

// ID returns the number in a file such as vendor or device: hexadecimal digits in lower case
// without 0x.
func (f *Function) ID(file string) (string, error) {
	text, err := f.Text(file)
	return strings.ToLower(strings.TrimPrefix(text, "0x")), err
}

// Driver returns the name of the bound driver; empty if there is none.
func (f *Function) Driver() (string, error) {
	driver, err := f.Link("driver")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return driver, err
}

// IOMMUGroup returns the IOMMU group of the function. The error says that there is none.
func (f *Function) IOMMUGroup() (*IOMMUGroup, error) {
	name, err := f.Link("iommu_group")
	if err != nil {
		return nil, fmt.Errorf("%s is in no IOMMU group: enable the IOMMU in the firmware and the kernel (intel_iommu=on): %w", f.Name, err)
	}
	return &IOMMUGroup{Name: name, sysfs: f.sysfs}, nil
}

// VirtualIndex returns the number of a virtual function, as N of virtfnN. The error says that it
// is none. See sriov_offset in Documentation/ABI/testing/sysfs-bus-pci of the kernel.
func (f *Function) VirtualIndex() (uint64, error) {
	name, err := f.Link("physfn")
	if err != nil {
		return 0, fmt.Errorf("%s is no virtual function: %w", f.Name, err)
	}
	physical, ok := address(name)
	if !ok {
		return 0, fmt.Errorf("the physical function of %s is %q, which is no PCI address", f.Name, name)
	}
	offset, err := f.Uint("physfn/sriov_offset")
	if err != nil {
		return 0, err
	}
	stride, err := f.Uint("physfn/sriov_stride")
	if err != nil {
		return 0, err
	}
	from, at := routingID(physical)+offset, routingID(f.Address)
	switch {
	case at == from:
		return 0, nil
	case at > from && stride > 0 && (at-from)%stride == 0:
		return (at - from) / stride, nil
	}
	return 0, fmt.Errorf("%s is no virtual function of %s by its sriov_offset %d and sriov_stride %d", f.Name, name, offset, stride)
}

// routingID returns bus, device and function as one number, as SR-IOV counts them.
func routingID(at pci.Address) uint64 {
	return uint64(at.Bus)<<8 | uint64(at.Device)<<3 | uint64(at.Function)
}

// IOMMUGroup is an IOMMU group: the functions that the hardware cannot keep apart.
type IOMMUGroup struct {
	// Name is its number.
	Name  string
	sysfs string
}

// InUse returns the members of the group, but those that are left out, that have a driver beside which the kernel gives
// the group to no container, each as "0000:01:00.1 (snd_hda_intel)". A member may have no driver, one of VFIO, or one that
// leaves DMA to others: "Groups, Devices, and IOMMUs" in Documentation/driver-api/vfio.rst of the kernel, and
// driver_managed_dma of its PCI drivers since Linux 5.19, which pci-stub and pcieport have, whatever the class of a member is.
func (g *IOMMUGroup) InUse(leaveOut ...string) ([]string, error) {
	root := Root(g.sysfs)
	names, err := root.Names("kernel/iommu_groups/" + g.Name + "/devices/*")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		if slices.Contains(leaveOut, name) {
			continue
		}
		driver, err := root.Link("kernel/iommu_groups/" + g.Name + "/devices/" + name + "/driver")
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has none, or went
		case err != nil:
			return nil, err
		case !IsVFIO(driver) && driver != "pci-stub" && driver != "pcieport":
			all = append(all, name+" ("+driver+")")
		}
	}
	return all, nil
}

// WithoutIOMMU reports whether VFIO made the group, as there is no IOMMU (vfio_noiommu_group_alloc in drivers/vfio/group.c). Its
// node is noiommu-N.
func (g *IOMMUGroup) WithoutIOMMU() (bool, error) {
	name, err := Root(g.sysfs).Text("kernel/iommu_groups/" + g.Name + "/name")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the kernel's groups have no name
	}
	return name == "vfio-noiommu", err
}

// IsVFIO reports whether a driver is one of VFIO: vfio-pci, or a variant of it such as mlx5_vfio_pci.
func IsVFIO(driver string) bool { return strings.Contains(driver, "vfio") }

// Port is a USB device, at a port of a hub.
type Port struct {
	Object // whose name is bus and ports, such as 1-2.3
	// Interface is the number of the interface that the object is on, such as 0; empty if it is
	// on none.
	Interface string
	// Shift is added to the numbers of the bus and of the device: see [Port.Number].
	Shift uint64
}

// Number returns the number in a file such as busnum or devnum. The kernel counts these.
func (p *Port) Number(file string) (uint64, error) {
	n, err := p.Uint(file)
	return n + p.Shift, err
}

// matches reports whether a function is selected. An absent file is no match.
func (p *PCI) matches(f *Function) (bool, error) {
	var ids [5]string
	for i, file := range []string{"vendor", "device", "class", "subsystem_vendor", "subsystem_device"} {
		if i == 2 && len(p.Classes) == 0 || i > 2 && len(p.Subsystems) == 0 {
			continue
		}
		var err error
		if ids[i], err = f.ID(file); err != nil {
			return false, err
		}
	}
	driver := ""
	if len(p.Drivers) > 0 {
		var err error
		if driver, err = f.Driver(); err != nil {
			return false, err
		}
	}
	return anyOf(p.Vendors, func(v string) bool { return same(v, ids[0]) }) &&
		anyOf(p.Devices, func(d string) bool { return same(d, ids[1]) || same(d, ids[0]+":"+ids[1]) }) &&
		anyOf(p.Classes, func(c string) bool { return len(ids[2]) >= len(c) && same(c, ids[2][:len(c)]) }) &&
		anyOf(p.Subsystems, func(s string) bool { return same(s, ids[3]+":"+ids[4]) }) &&
		anyOf(p.Drivers, func(d string) bool { return d == driver }), nil
}

// matches reports whether a USB device is selected.
func (u *USB) matches(o *Object) (bool, error) {
	vendor, err := o.Text("idVendor")
	if err != nil {
		return false, err // as for an interface of a device
	}
	product, err := o.Text("idProduct")
	if err != nil {
		return false, err
	}
	serial := ""
	if len(u.Serials) > 0 {
		if serial, err = o.Text("serial"); err != nil {
			return false, err
		}
	}
	return anyOf(u.Vendors, func(v string) bool { return same(v, vendor) }) &&
		anyOf(u.Products, func(p string) bool { return same(p, product) || same(p, vendor+":"+product) }) &&
		anyOf(u.Serials, func(pattern string) bool { ok, _ := path.Match(pattern, serial); return ok }), nil
}

// anyOf reports whether one element matches, or the list is empty.
func anyOf(list []string, matches func(string) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, matches)
}

func same(want, is string) bool { return strings.EqualFold(want, is) }
