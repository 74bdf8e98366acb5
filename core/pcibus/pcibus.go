// Package pcibus finds the accelerators on the PCI bus, whether or not a backend lists
// them, so that the agent can report hardware that no backend covers.
//
// It uses no driver and opens no device: it reads vendor, device, class and driver link of
// each function from sysfs (Documentation/ABI/testing/sysfs-bus-pci).
package pcibus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Accelerator is a card or chip: the PCI functions of one slot.
type Accelerator struct {
	// Address is the address of the first function that is an accelerator: "0000:65:00.0".
	Address string
	// Vendor and Device are its PCI IDs, four lower-case hexadecimal digits each: "10de".
	Vendor, Device string
	// Class is its class code without the programming interface: "0302".
	Class string
	// Driver is the kernel driver that is bound to it; "" if there is none.
	Driver string
	// Backends are those whose manifests have it, in the order of the table.
	Backends []string
}

// Covered reports whether a backend, by the name in its manifest, serves the accelerator.
func (a Accelerator) Covered(backend string) bool { return slices.Contains(a.Backends, backend) }

// Backend returns the first of the backends that serve it; "" if there is none.
func (a Accelerator) Backend() string {
	if len(a.Backends) == 0 {
		return ""
	}
	return a.Backends[0]
}

// Table is the hardware of manifests.
type Table []Hardware

// Hardware are PCI functions that a backend serves. Vendor and Device have four lower-case hexadecimal digits, Class two, four
// or six; "" is any.
type Hardware struct{ Backend, Vendor, Device, Class string }

// Has reports whether a backend only serves hardware on the PCI bus, so that it has no devices without such hardware.
func (t Table) Has(backend string) bool {
	return slices.ContainsFunc(t, func(h Hardware) bool { return h.Backend == backend })
}

// backends returns those that serve a function with a class of six digits.
func (t Table) backends(vendor, device, class string) (all []string) {
	for _, h := range t {
		if (h.Vendor == "" || h.Vendor == vendor) && (h.Device == "" || h.Device == device) && strings.HasPrefix(class, h.Class) && !slices.Contains(all, h.Backend) {
			all = append(all, h.Backend)
		}
	}
	return all
}

// function is a PCI function.
type function struct {
	Accelerator
	slot string
	// virtual: it is a virtual function whose physical function is on this machine.
	virtual bool
	// onRoot: it is on a root bus, without a bridge above it.
	onRoot bool
}

// Vendors that the rules of Read distinguish.
const (
	vendorATI    = "1002" // AMD's GPUs
	vendorAMD    = "1022" // AMD's CPUs, and what is in them
	vendorIntel  = "8086"
	vendorVirtio = "1af4"
)

// The base classes of accelerators (pci_ids.h: PCI_BASE_CLASS_DISPLAY,
// PCI_CLASS_ACCELERATOR_PROCESSING).
const (
	classDisplay    = "03"
	classProcessing = "12"
	// Of the first, with the subclass.
	class3D           = "0302"
	classOtherDisplay = "0380"
)

// maxID bounds the bytes of an ID or a class in sysfs: "0x030200\n".
const maxID = 16

// Read returns the accelerators below a root of sysfs, sorted by address. The error is
// fs.ErrNotExist if there is no PCI bus. A function that cannot be read is left out: it may
// have been unplugged meanwhile. It reads five files for each function of the machine.
//
// Accelerators are what the table has, and processing accelerators of every vendor, except:
//   - GPUs that are part of an AMD CPU: other functions of their slot are the CPU's;
//   - Intel processing accelerators without a bridge above, which are part of the CPU (NPU);
//   - virtual functions whose physical function is on this machine;
//   - cards of which a function is passed to virtual machines (bound to vfio): the others manage it.
func Read(sysfs string, table Table) ([]Accelerator, error) {
	functions, err := readFunctions(sysfs, table)
	if err != nil {
		return nil, err
	}
	ofCPU, passed := map[string]bool{}, map[string]bool{}
	for _, f := range functions {
		ofCPU[f.slot] = ofCPU[f.slot] || f.Vendor == vendorAMD
		passed[f.slot] = passed[f.slot] || f.isPassed()
	}
	var found []Accelerator
	seen := map[string]bool{}
	for _, f := range functions { // ReadDir sorts: function 0 comes first
		if f.counts(ofCPU[f.slot]) && !passed[f.slot] && !seen[f.slot] {
			seen[f.slot] = true
			found = append(found, f.Accelerator)
		}
	}
	return found, nil
}

// ReadPossible returns the functions that may be accelerators although [Read] leaves them out:
// processing accelerators, 3D and other display controllers of any vendor but virtio's, and what
// has a device of the class accel or an HCA. One that is bound to vfio is passed to virtual machines,
// and left out.
func ReadPossible(sysfs string) ([]Accelerator, error) {
	functions, err := readFunctions(sysfs, nil)
	if err != nil {
		return nil, err
	}
	var found []Accelerator
	for _, f := range functions {
		possible := f.Class[:2] == classProcessing || (f.Class == class3D || f.Class == classOtherDisplay) && f.Vendor != vendorVirtio
		for _, class := range []string{"accel", "infiniband"} {
			_, err := os.Stat(filepath.Join(sysfs, "bus/pci/devices", f.Address, class))
			possible = possible || err == nil
		}
		if possible && !f.virtual && !f.isPassed() {
			found = append(found, f.Accelerator)
		}
	}
	return found, nil
}

// Backends returns the names of those in the table of which a function is on the bus, whatever it is used for.
func Backends(sysfs string, table Table) (map[string]bool, error) {
	functions, err := readFunctions(sysfs, table)
	found := map[string]bool{}
	for _, f := range functions {
		for _, name := range f.Backends {
			found[name] = true
		}
	}
	return found, err
}

// readFunctions returns all functions by address, without those that cannot be read.
func readFunctions(sysfs string, table Table) (functions []function, err error) {
	dir := filepath.Join(sysfs, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	for _, entry := range entries {
		if f, ok := readFunction(dir, entry.Name(), table); ok {
			functions = append(functions, f)
		}
	}
	return functions, nil
}

// isPassed reports whether the function is passed to virtual machines.
func (f *function) isPassed() bool { return strings.Contains(f.Driver, "vfio") }

func (f *function) counts(ofCPU bool) bool {
	switch class := f.Class[:2]; {
	case f.virtual, class == classDisplay && f.Vendor == vendorATI && ofCPU, class == classProcessing && f.Vendor == vendorIntel && f.onRoot:
		return false
	default:
		return class == classProcessing || len(f.Backends) > 0
	}
}

// readFunction returns false for a function that cannot be read.
func readFunction(dir, address string, table Table) (f function, ok bool) {
	path := filepath.Join(dir, address)
	class, vendor, device := readID(path, "class"), readID(path, "vendor"), readID(path, "device")
	if len(class) != 6 || len(vendor) != 4 || len(device) != 4 {
		return f, false
	}
	_, err := os.Lstat(filepath.Join(path, "physfn"))
	f.virtual = !errors.Is(err, fs.ErrNotExist)
	f.Accelerator = Accelerator{Address: address, Vendor: vendor, Device: device, Class: class[:4], Backends: table.backends(vendor, device, class)}
	f.slot, _, _ = strings.Cut(address, ".")
	if driver, err := os.Readlink(filepath.Join(path, "driver")); err == nil {
		f.Driver = filepath.Base(driver)
	}
	if at, err := os.Readlink(path); err == nil { // ../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0
		f.onRoot = strings.HasPrefix(filepath.Base(filepath.Dir(at)), "pci")
	}
	return f, true
}

// readID returns the digits of an ID: "10de" for "0x10de\n"; "" if it cannot be read.
func readID(dir, name string) string {
	file, err := os.Open(filepath.Join(dir, name)) //nolint:gosec // below the root of sysfs
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // it was only read
	text := make([]byte, maxID)
	n, _ := file.Read(text)
	digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(string(text[:n]))), "0x")
	if !ok || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return digits
}
