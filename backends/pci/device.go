package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Device is one PCI function as sysfs describes it (Documentation/ABI/testing/sysfs-bus-pci).
type Device struct {
	Address Address
	// Vendor and ID are the 16-bit IDs of the PCI configuration space.
	Vendor, ID uint16
	// Class is the class code: base class, subclass, programming interface, such
	// as 0x030200 for a 3D controller.
	Class uint32
	// NUMANode is the NUMA node closest to the device; -1 if unknown.
	NUMANode int
	// Driver is the kernel driver that is bound; empty if there is none.
	Driver string
	// IOMMUGroup is the group's name, a number; empty without an IOMMU.
	IOMMUGroup string
	// Parents are the bridges above the device, the root port first.
	Parents []Address
}

// ReadDevice reads the device at an address. root is that of sysfs, usually /sys. The error is
// fs.ErrNotExist if the device does not exist (any more).
func ReadDevice(root string, at Address) (Device, error) {
	dir := filepath.Join(directory(root), at.String())
	d := Device{Address: at, NUMANode: -1}
	vendor, err := number(dir, "vendor", 16)
	if err != nil {
		return Device{}, fmt.Errorf("PCI device %s: %w", at, err)
	}
	id, err := number(dir, "device", 16)
	if err != nil {
		return Device{}, fmt.Errorf("PCI device %s: %w", at, err)
	}
	class, err := number(dir, "class", 24)
	if err != nil {
		return Device{}, fmt.Errorf("PCI device %s: %w", at, err)
	}
	d.Vendor, d.ID, d.Class = uint16(vendor), uint16(id), uint32(class)
	// The following is missing on some kernels and machines, which is no error.
	if node, err := text(dir, "numa_node"); err == nil {
		if n, err := strconv.Atoi(node); err == nil && n >= 0 {
			d.NUMANode = n
		}
	}
	d.Driver = target(dir, "driver")
	d.IOMMUGroup = target(dir, "iommu_group")
	d.Parents = parents(dir)
	return d, nil
}

// List returns all devices of a vendor, sorted by address. If classes (base class and subclass,
// such as 0x0302) are given, only devices of these. The error joins one for each device that
// could not be read, and comes with the other devices; a device that was removed meanwhile is no
// error.
func List(root string, vendor uint16, classes ...uint16) ([]Device, error) {
	devices, err := list(root, "vendor", 16, func(v uint64) bool { return v == uint64(vendor) })
	return slices.DeleteFunc(devices, func(d Device) bool {
		return d.Vendor != vendor || len(classes) > 0 && !slices.Contains(classes, uint16(d.Class>>8))
	}), err
}

// ProcessingAccelerator is the base class of FPGAs and other accelerators that are not displays
// (PCI_CLASS_ACCELERATOR_PROCESSING in pci_ids.h).
const ProcessingAccelerator = 0x12

// OfClass returns all devices of a base class, sorted by address. Errors are
// those of [List].
func OfClass(root string, base uint8) ([]Device, error) {
	return list(root, "class", 24, func(class uint64) bool { return class>>16 == uint64(base) })
}

// Unlisted returns the error of [List] or [OfClass] if it says that the bus could not be listed, or nothing on it read; nil if
// devices came with it, or the machine has no PCI.
func Unlisted(devices []Device, err error) error {
	if len(devices) > 0 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list reads the devices for which a file has a wanted number; of other devices only that
// file is read. A device whose file cannot be read is included, for its error.
func list(root, file string, bits int, want func(uint64) bool) ([]Device, error) {
	entries, err := os.ReadDir(directory(root))
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	var devices []Device
	var failed []error
	for _, entry := range entries {
		at, err := ParseAddress(entry.Name())
		if err != nil {
			continue
		}
		if n, err := number(filepath.Join(directory(root), entry.Name()), file, bits); err == nil && !want(n) {
			continue
		}
		d, err := ReadDevice(root, at)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			failed = append(failed, err)
		default:
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b Device) int { return a.Address.Compare(b.Address) })
	return devices, errors.Join(failed...)
}

func directory(root string) string {
	return filepath.Join(root, "bus", "pci", "devices")
}

// parents returns the PCI addresses on the device's path in /sys/devices, without its own: that to
// which the bus's link leads. A device that is only a directory has none.
func parents(dir string) []Address {
	path, err := os.Readlink(dir)
	if err != nil {
		return nil
	}
	var above []Address
	for part := range strings.SplitSeq(filepath.Dir(path), string(filepath.Separator)) {
		if at, err := ParseAddress(part); err == nil {
			above = append(above, at)
		}
	}
	return above
}

func number(dir, file string, bits int) (uint64, error) {
	s, err := text(dir, file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, bits)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, want a hexadecimal number of %d bits", file, s, bits)
	}
	return n, nil
}

func text(dir, file string) (string, error) {
	return sysfs.Attribute(filepath.Join(dir, file))
}

func target(dir, link string) string {
	to, err := os.Readlink(filepath.Join(dir, link))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
