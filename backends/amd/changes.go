package amd

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// What tells that GPUs, partitions or the driver come and go: the kernel, by uevents
// and by KFD's generation. Neither says what there is now, so all that follows is a
// look, soon.

// concerns reports whether an event of the kernel is about an AMD GPU, a partition or
// the driver.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		return e.DevPath == "/module/amdgpu"
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		return err == nil && (class>>16 == 0x03 || class>>16 == 0x12) && strings.HasPrefix(e.Properties["PCI_ID"], "1002:")
	case "drm":
		// "change" comes with every monitor.
		_, wedged := e.Properties["WEDGED"]
		return wedged || e.Action != uevent.Change
	case "kfd", "kfd_topology":
		return true
	}
	return false
}

// told takes what the kernel tells.
func (l *loop) told(e uevent.Event, ok bool) {
	if methods, wedged := e.Properties["WEDGED"]; l.kernel.Accept(e, ok) && wedged {
		l.wedged(e.DevPath, methods)
	}
	l.change()
}

// change has the loop look soon.
func (l *loop) change() {
	l.incomplete = 0
	at := time.Now().Add(settle)
	if next := l.last.began.Add(changePause); at.Before(next) {
		at = next
	}
	if l.wanted.IsZero() || at.Before(l.wanted) {
		l.wanted = at
	}
}

// wedged takes the driver's word that it gave up a card, or that it had to reset it.
func (l *loop) wedged(devPath, methods string) {
	known := l.roster.at(function(devPath))
	if known == nil {
		return // another vendor's, or one that is not listed
	}
	fault := wedge(methods)
	if fault == nil {
		l.backend.log.Info("the driver had to recover a GPU, and could", "device", known.gpu.ID)
		return
	}
	known.wedged, known.fresh = sdk.Graver(known.wedged, fault), false
}

// function is the PCI function of a device below it: /devices/pci0000:00/…/0000:63:00.0/drm/card1.
func function(devPath string) pci.Address {
	for dir := devPath; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if name := path.Base(dir); strings.Count(name, ":") == 2 {
			if at, err := pci.ParseAddress(name); err == nil {
				return at
			}
		}
	}
	return pci.Address{}
}
