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
	vendorNVIDIA = "10de"
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
// Accelerators are NVIDIA's and AMD's display controllers, and processing accelerators of
// every vendor, except:
//   - display controllers of other vendors (ASPEED, Matrox, Intel, virtio);
//   - GPUs that are part of an AMD CPU: other functions of their slot are the CPU's;
//   - Intel processing accelerators without a bridge above, which are part of the CPU (NPU);
//   - virtual functions whose physical function is on this machine;
//   - cards of which a function is passed to virtual machines (bound to vfio): the others manage it.
func Read(sysfs string) ([]Accelerator, error) {
	functions, err := readFunctions(sysfs)
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
	functions, err := readFunctions(sysfs)
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

// readFunctions returns all functions by address, without those that cannot be read.
func readFunctions(sysfs string) (functions []function, err error) {
	dir := filepath.Join(sysfs, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	for _, entry := range entries {
		if f, ok := readFunction(dir, entry.Name()); ok {
			functions = append(functions, f)
		}
	}
	return functions, nil
}

// isPassed reports whether the function is passed to virtual machines.
func (f *function) isPassed() bool { return strings.Contains(f.Driver, "vfio") }

func (f *function) counts(ofCPU bool) bool {
	switch {
	case f.virtual:
		return false
	case f.Class[:2] == classDisplay:
		return f.Vendor == vendorNVIDIA || f.Vendor == vendorATI && !ofCPU
	case f.Class[:2] == classProcessing:
		return f.Vendor != vendorIntel || !f.onRoot
	}
	return false
}

// readFunction returns false for a function that cannot be read.
func readFunction(dir, address string) (f function, ok bool) {
	path := filepath.Join(dir, address)
	class, vendor, device := readID(path, "class"), readID(path, "vendor"), readID(path, "device")
	if len(class) != 6 || len(vendor) != 4 || len(device) != 4 {
		return f, false
	}
	_, err := os.Lstat(filepath.Join(path, "physfn"))
	f.virtual = !errors.Is(err, fs.ErrNotExist)
	f.Accelerator = Accelerator{Address: address, Vendor: vendor, Device: device, Class: class[:4]}
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

// Covers reports whether backends of a kind support an accelerator. A kind is the name that
// a backend reports of itself, such as "nvidia".
func Covers(kind string, a Accelerator) bool {
	vendors, ok := coverage[kind]
	if !ok || kind == fpga && a.Class[:2] != classProcessing {
		return false
	}
	return slices.Contains(vendors, a.Vendor)
}

// Known reports whether backends of a kind only support hardware on the PCI bus, so that
// they have no devices without such hardware.
func Known(kind string) bool { return coverage[kind] != nil }

// Kind returns the kind of backend that supports an accelerator; "" if there is none.
func Kind(a Accelerator) string {
	for _, kind := range []string{nvidia, amd, fpga} {
		if Covers(kind, a) {
			return kind
		}
	}
	return ""
}

const (
	nvidia = "nvidia"
	amd    = "amd"
	fpga   = "fpga"
)

// coverage has the PCI vendors of each kind's hardware. Alveo cards have the vendor ID of
// Xilinx, Advantech, Amazon or AMD (xocl's xocl_devices.h).
var coverage = map[string][]string{
	nvidia: {vendorNVIDIA},
	amd:    {vendorATI},
	fpga:   {vendorIntel, "10ee", "13fe", "1d0f", "3475"},
}
