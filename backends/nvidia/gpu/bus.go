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

// The vendor ID of NVIDIA and the PCI classes of GPUs.
const (
	vendorNVIDIA             = 0x10de
	classVGA, class3D uint16 = 0x0300, 0x0302
)

// Present returns NVIDIA's GPUs on the PCI bus, without those whose files in sysfs cannot be read.
func Present(sysfs string) []pci.Device {
	present, _ := OnBus(sysfs)
	return present
}

// OnBus is [Present], with the error if the bus cannot be listed.
func OnBus(sysfs string) ([]pci.Device, error) {
	present, err := pci.List(sysfs, vendorNVIDIA, classVGA, class3D)
	return present, pci.Unlisted(present, err)
}

// deviceAt returns the PCI device at a bus ID; its vendor is zero if sysfs does not have it.
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

// placed returns the GPUs, with a bus ID added to those of which NVML reports only the index: they
// failed before NVML was opened. They get, in the order of their indexes, the addresses at which
// NVIDIA's driver is bound and NVML reports no GPU, since NVML numbers GPUs in the order of the bus.
// If the number of such addresses differs, the GPUs are returned as they are.
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

// identifier returns the UUID of the GPU at a bus ID from the driver's files in procfs, which keep
// it when the GPU is lost; "" if they do not have it.
func identifier(procfs, busID string) string {
	// The UUID of a GPU that was never initialized consists of question marks.
	if uuid := information(procfs, busID, "GPU UUID"); strings.HasPrefix(uuid, "GPU-") && !strings.Contains(uuid, "?") {
		return uuid
	}
	return ""
}

// information returns the value of one line of <procfs>/driver/nvidia/gpus/<bus ID>/information,
// the kernel module's file about a GPU; "" if there is none.
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

// Mismatch is a GPU that NVML lists and NVIDIA's kernel module is not bound to, or the reverse.
type Mismatch struct {
	busID string
	// node is the problem with its device node; "" if there is none. NVML does not list a
	// GPU whose device node it cannot open.
	node string
}

// Mismatches returns the mismatches in the order of bus IDs. They occur because NVML lists the GPUs
// that it found when it was opened. If sysfs has no NVIDIA GPU, only a GPU that was unplugged is a
// mismatch: a machine may list GPUs that its PCI bus does not have.
func Mismatches(s driver.Snapshot, known []Reading, host sdk.HostPaths, missingNode func(minor int) error) []Mismatch {
	present := Present(host.Sysfs)
	listed := map[string]bool{}
	for _, g := range s.GPUs {
		if g.PCIBusID != "" && (len(present) > 0 || unplugged(of(known, g), g, host.Sysfs)) {
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
