package amd

import (
	"testing"

	"github.com/accelmux/accelmux/backends/uevent"
)

// Events of AMD's GPUs and of their driver ask for a scan, those of other devices do not.
func TestConcerns(t *testing.T) {
	pci := func(class, id string) uevent.Event {
		return uevent.Event{Subsystem: "pci", Properties: map[string]string{"PCI_CLASS": class, "PCI_ID": id}}
	}
	for _, c := range []struct {
		event uevent.Event
		want  bool
	}{
		{uevent.Event{Subsystem: "module", DevPath: "/module/amdgpu"}, true},
		{uevent.Event{Subsystem: "module", DevPath: "/module/nvidia"}, false},
		{pci("38000", "1002:740F"), true},
		{pci("120000", "1002:74A1"), true},
		{pci("60400", "1002:14A1"), false},
		{pci("30000", "10DE:2330"), false},
		{uevent.Event{Subsystem: "drm", Action: uevent.Add}, true},
		{uevent.Event{Subsystem: "drm", Action: uevent.Change}, false},
		{uevent.Event{Subsystem: "drm", Action: uevent.Change, Properties: map[string]string{"WEDGED": "rebind"}}, true},
		{uevent.Event{Subsystem: "kfd"}, true},
		{uevent.Event{Subsystem: "net"}, false},
	} {
		if got := concerns(c.event); got != c.want {
			t.Errorf("%v: %v, want %v", c.event, got, c.want)
		}
	}
}
