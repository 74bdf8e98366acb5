package fpga

import (
	"testing"

	"github.com/accelmux/accelmux/backends/uevent"
)

// Events of FPGAs and of their drivers ask for a scan, those of other devices do not.
func TestConcerns(t *testing.T) {
	pci := func(class, id string) uevent.Event {
		return uevent.Event{Subsystem: "pci", Properties: map[string]string{"PCI_CLASS": class, "PCI_ID": id}}
	}
	for _, c := range []struct {
		event uevent.Event
		want  bool
	}{
		{uevent.Event{Subsystem: "fpga_region"}, true},
		{uevent.Event{Subsystem: "module", DevPath: "/module/dfl_pci"}, true},
		{uevent.Event{Subsystem: "module", DevPath: "/module/nvidia"}, false},
		{pci("120000", "8086:0B30"), true},
		{pci("58000", "10EE:5000"), true},
		{pci("30000", "10DE:2330"), false},
		{uevent.Event{Subsystem: "drm", Action: uevent.Add}, true},
		{uevent.Event{Subsystem: "drm", Action: uevent.Change}, false},
		{uevent.Event{Subsystem: "misc", DevPath: "/devices/virtual/misc/ama_transcoder0"}, true},
		{uevent.Event{Subsystem: "misc", DevPath: "/devices/virtual/misc/kvm"}, false},
		{uevent.Event{Subsystem: "net"}, false},
	} {
		if got := concerns(c.event); got != c.want {
			t.Errorf("%v: %v, want %v", c.event, got, c.want)
		}
	}
}
