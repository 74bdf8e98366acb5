package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// DriverName is the name of NVIDIA's driver in the kernel.
const DriverName = "nvidia"

// The vendor NVIDIA and the classes of GPUs on the PCI bus.
const (
	vendorNVIDIA             = 0x10de
	classVGA, class3D uint16 = 0x0300, 0x0302
)

// Present returns NVIDIA's GPUs on the PCI bus, without those that sysfs cannot read.
func Present(sysfs string) []pci.Device {
	present, _ := pci.List(sysfs, vendorNVIDIA, classVGA, class3D) // the error is about unreadable ones
	return present
}

// deviceAt returns the PCI device at a bus ID, without a vendor if sysfs does not have it.
func deviceAt(sysfs, busID string) pci.Device {
	address, err := pci.ParseAddress(busID)
	if err != nil {
		return pci.Device{NUMANode: -1}
	}
	if d, err := pci.ReadDevice(sysfs, address); err == nil {
		return d
	}
	return pci.Device{Address: address, NUMANode: -1}
}

// placed returns the GPUs, with bus IDs for those of which NVML reports only the index. Such a
// GPU has failed since before NVML was opened. They must be the GPUs that the driver has on the
// bus at addresses of no other GPU, if there are as many. NVML counts in the order of
// the bus.
func placed(gpus []driver.GPU, sysfs string) []driver.GPU {
	taken := map[string]bool{}
	nameless := 0
	for _, g := range gpus {
		taken[g.PCIBusID] = true
		if g.UUID == "" && g.PCIBusID == "" {
			nameless++
		}
	}
	if nameless == 0 {
		return gpus
	}
	present := slices.DeleteFunc(Present(sysfs), func(d pci.Device) bool {
		return d.Driver != DriverName || taken[d.Address.String()]
	})
	if len(present) != nameless {
		return gpus
	}
	gpus = slices.Clone(gpus)
	for i := range gpus {
		if g := &gpus[i]; g.UUID == "" && g.PCIBusID == "" {
			g.PCIBusID = present[0].Address.String()
			present = present[1:]
		}
	}
	return gpus
}

// identifier returns the UUID of the GPU at a bus ID from the driver's procfs, where it stays
// when the GPU is lost; "" if it is not there.
func identifier(procfs, busID string) string {
	// A GPU that was never initialized has question marks there.
	if uuid := information(procfs, busID, "GPU UUID"); strings.HasPrefix(uuid, "GPU-") && !strings.Contains(uuid, "?") {
		return uuid
	}
	return ""
}

// information returns a line of what the kernel module reports about a GPU, in
// <procfs>/driver/nvidia/gpus/<bus ID>/information; "" if it has none.
func information(procfs, busID, name string) string {
	if busID == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(procfs, "driver/nvidia/gpus", busID, "information"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Mismatch is a GPU that only one of the kernel and NVML lists.
type Mismatch struct {
	busID string
	// node is the problem of its device node; "" if there is none. NVML does not list a
	// GPU whose node it cannot open.
	node string
}

// Mismatches returns GPUs that NVIDIA's kernel module has and NVML does not list, or the
// other way round. NVML counts GPUs when it is opened. Without a PCI bus in sysfs there
// are none.
func Mismatches(host sdk.HostPaths, s driver.Snapshot, missingNode func(minor int) error) []Mismatch {
	present := Present(host.Sysfs)
	if len(present) == 0 {
		return nil
	}
	listed := map[string]bool{}
	for _, g := range s.GPUs {
		if g.PCIBusID != "" {
			listed[g.PCIBusID] = true
		}
	}
	var left []Mismatch
	for _, device := range present {
		at := device.Address.String()
		bound := device.Driver == DriverName
		if listed[at] != bound {
			left = append(left, Mismatch{busID: at})
		}
		if minor, err := strconv.Atoi(information(host.Procfs, at, "Device Minor")); err == nil && bound && !listed[at] {
			if err := missingNode(minor); err != nil {
				left[len(left)-1].node = err.Error()
			}
		}
		delete(listed, at)
	}
	for at := range listed {
		left = append(left, Mismatch{busID: at})
	}
	slices.SortFunc(left, func(a, b Mismatch) int { return strings.Compare(a.busID, b.busID) })
	return left
}
