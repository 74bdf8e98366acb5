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
	// only are the GPUs that were asked; all if there are none.
	only []string
	err  error
}

// asked reports whether the look has asked the GPU.
func (f *look) asked(uuid string) bool { return len(f.only) == 0 || slices.Contains(f.only, uuid) }

// suspects are the GPUs that the pending events are of; none if all GPUs are to be
// asked, since an event is of another one, or it is time.
func (l *loop) suspects() []string {
	if !l.others.IsZero() && !time.Now().Before(l.others) {
		return nil
	}
	var all []string
	for _, event := range l.pending {
		uuid := l.concerned(event)
		if uuid == "" {
			return nil
		}
		if !slices.Contains(all, uuid) {
			all = append(all, uuid)
		}
	}
	return all
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
