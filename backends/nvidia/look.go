package nvidia

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// look is what one look found, by which settings.
type look struct {
	cfg      *config
	began    time.Time
	snapshot driver.Snapshot
	stream   *driver.Stream // a new one, or nil
	made     made
	unlisted []string // GPUs on the bus that the driver does not list
	// quick says that only health was looked at, since only events asked for it.
	quick bool
	err   error
}

// unlisted are GPUs that the kernel module has, and NVML does not list: it counts
// GPUs when it is opened.
func unlisted(sysfs string, s driver.Snapshot) []string {
	present, _ := pci.List(sysfs, vendorNVIDIA, classVGA, class3D) // those that can be read will do
	var left []string
	for _, device := range present {
		at := device.Address.String()
		if device.Driver == "nvidia" && !slices.ContainsFunc(s.GPUs, func(g driver.GPU) bool { return g.PCIBusID == at }) {
			left = append(left, at)
		}
	}
	return left
}

func uuids(s driver.Snapshot) []string {
	var all []string
	for _, g := range s.GPUs {
		if g.UUID != "" {
			all = append(all, g.UUID)
		}
	}
	slices.Sort(all)
	return all
}
