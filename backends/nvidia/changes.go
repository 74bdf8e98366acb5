package nvidia

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// GPUs, MIG devices and the driver can come and go between two scans. The kernel reports it
// by uevents, and NVML reports MIG changes by events. Neither reports the new state, so
// each event only starts a scan soon.
//
//	kernel: pci, module ──┐
//	                      ├──► change ──► one scan for a burst
//	NVML: MIG ────────────┘

const (
	// settle is how long a burst of changes is waited for, and at the same time for
	// the first device nodes. changePause is the least between looks that changes
	// ask for.
	settle, changePause = 250 * time.Millisecond, time.Second
	// displayController is the base class of GPUs on the PCI bus.
	displayController = 0x03
)

// concerns reports whether an event of the kernel is about an NVIDIA GPU or about
// the driver's modules. The properties are those of pci_uevent in
// drivers/pci/pci-driver.c; "nvidia" itself comes with its GPUs, nvidia_uvm with a
// node that containers need.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		return strings.HasPrefix(e.DevPath, "/module/nvidia")
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		return err == nil && class>>16 == displayController && strings.HasPrefix(e.Properties["PCI_ID"], "10DE:")
	}
	return false
}

// told handles an event of the kernel. If NVML does not list a GPU, or still lists one that
// is gone, it is opened again: another GPU may be at that address now.
func (l *loop) told(e uevent.Event, ok bool) {
	l.kernel.Accept(e, ok)
	l.renew = l.renew || len(l.mismatched) > 0
	l.change()
}

// change has the loop look soon, and shortens the pauses of those who wait for a
// driver or for nodes.
func (l *loop) change() {
	l.failures, l.incomplete = 0, 0
	at := time.Now().Add(settle)
	if next := l.last.Add(changePause); at.Before(next) {
		at = next
	}
	if l.wanted.IsZero() || at.Before(l.wanted) {
		l.wanted = at
	}
}

// whole is when the next look at everything is, as far as is known.
func (l *loop) whole() time.Time {
	if l.wanted.IsZero() {
		return l.due
	}
	return earlier(l.due, l.wanted)
}

// next is when the next look is, be it at health alone.
func (l *loop) next() time.Time {
	if l.others.IsZero() {
		return l.whole()
	}
	return earlier(l.whole(), l.others)
}

// patience is how long it is until the look after one that found this. What a
// container needs may come some time after the device, so as long as something is
// missing the looks are more frequent at first.
func (l *loop) patience(found look) time.Duration {
	nodeMissing := func(m mismatch) bool { return m.node != "" }
	if found.err != nil || found.made.set == nil || found.made.set.Err() == nil && !slices.ContainsFunc(found.mismatched, nodeMissing) {
		l.incomplete = 0
		return l.cfg.rescan
	}
	pause := retryFirst << min(l.incomplete, 10)
	l.incomplete++
	return min(pause, l.cfg.rescan)
}

// mismatch is a GPU that only one of the kernel and NVML lists.
type mismatch struct {
	busID string
	// node says what is wrong with its device node; "" if nothing is. NVML does not list a
	// GPU whose node it cannot open.
	node string
}

// mismatches are GPUs of which the kernel and NVML disagree: those that NVIDIA's kernel
// module has and NVML does not list, or the other way round. NVML counts GPUs when
// it is opened. Where there is no such bus, nothing is known.
func mismatches(host sdk.HostPaths, s driver.Snapshot, missingNode func(minor int) error) []mismatch {
	present, _ := pci.List(host.Sysfs, vendorNVIDIA, classVGA, class3D) // unreadable devices are left out
	if len(present) == 0 {
		return nil
	}
	listed := map[string]bool{}
	for _, g := range s.GPUs {
		if g.PCIBusID != "" {
			listed[g.PCIBusID] = true
		}
	}
	var left []mismatch
	for _, device := range present {
		at := device.Address.String()
		bound := device.Driver == driverNVIDIA
		if listed[at] != bound {
			left = append(left, mismatch{busID: at})
		}
		if minor, err := strconv.Atoi(information(host.Procfs, at, "Device Minor")); err == nil && bound && !listed[at] {
			if err := missingNode(minor); err != nil {
				left[len(left)-1].node = err.Error()
			}
		}
		delete(listed, at)
	}
	for at := range listed {
		left = append(left, mismatch{busID: at})
	}
	slices.SortFunc(left, func(a, b mismatch) int { return strings.Compare(a.busID, b.busID) })
	return left
}
