package device

import (
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
)

// A fault belongs to the hardware, and an ID to its place: a card that was plugged into the slot of one with a fault,
// or was reseated there, has evidence of recovery. So has it if both events come between two scans, and for a process
// that started in between.
func TestAnotherCardInTheSlot(t *testing.T) {
	t.Parallel()
	const function, remove = "/devices/pci0000:00/0000:01:00.0", "- sys/devices/pci0000:00/0000:01:00.0\n- sys/bus/pci/devices/0000:01:00.0\n- sys/class/acme/acme0\n- dev/acme0"
	for name, kind := range map[string]string{
		"a class":   `"match": {"class": "acme"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}`,
		"functions": `"match": {"pci": {"vendors": ["1234"]}}, "edits": {"nodes": [{"path": "/dev/acme0", "optional": true}], "env": {"A": "1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := `{"edits": {"groups": "none"}, "kinds": [{"name": "acme", ` + kind + `, "reset": {"pci": true},
				"health": [{"fault": "pcie-error", "event": "ERROR_EVENT=FAILED_RECOVERY", "recovery": "reset"}]}]}`
			run(t, "", acme, settings, func(r *rig) {
				fails := func() {
					t.Helper()
					r.kernel.Send(uevent.Change, function, "pci", map[string]string{"ERROR_EVENT": "FAILED_RECOVERY"})
					r.device(acmeID, "has a fault", hasFault("pcie-error", ""))
				}
				r.device(acmeID, "is healthy", healthy)
				fails()
				r.change(remove, uevent.Remove, function, "pci")
				r.device(acmeID, "is unplugged", nil)
				r.During(func() { <-time.After(time.Minute) })
				r.change(acme, uevent.Add, function, "pci")
				r.device(acmeID, "has recovered", recovered)
				r.During(func() { <-time.After(time.Minute) })
				fails()
				r.kernel.Send(uevent.Remove, function, "pci", nil)
				r.kernel.Send(uevent.Add, function, "pci", nil)
				r.device(acmeID, "has recovered between two scans", recovered)
				r.start(settings)
				r.device(acmeID, "was found", healthy)
				r.change(remove, uevent.Remove, function, "pci")
				r.device(acmeID, "is unplugged", nil)
				r.change(acme, uevent.Add, function, "pci")
				r.device(acmeID, "has evidence for the other process", recovered)
			})
		})
	}
}

// An interface that was in a pod is back by an event "add" and by its name, on the same card, with the fault that the
// core knows: that is evidence of nothing. The card's own event is.
func TestInterfaceIsBackOnTheSameCard(t *testing.T) {
	t.Parallel()
	const id, card = "socketcan-0000:03:00.0", "/devices/pci0000:00/0000:03:00.0"
	const dir = "sys" + card + "/net/can0/"
	made := strings.ReplaceAll("DIRtype: 280\nDIRdev_port: 0\nDIRdev_id: 0x0\nDIRoperstate: up\nDIRdevice -> ../../../0000:03:00.0\n", "DIR", dir) +
		"sys/class/net/can0 -> ../.." + card + "/net/can0"
	run(t, "socketcan", "", `{"presets": ["socketcan"]}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		r.kernel.Send(uevent.Change, card, "pci", map[string]string{"ERROR_EVENT": "FAILED_RECOVERY"})
		r.device(id, "has a fault", hasFault("pcie-error", ""))
		r.change("- sys/class/net/can0\n- "+dir, uevent.Remove, card+"/net/can0", "net")
		r.device(id, "is in a pod", nil)
		r.change(made, uevent.Add, card+"/net/can0", "net")
		r.device(id, "is back", healthy)
		r.kernel.Send(uevent.Add, card+"/net/can0", "net", nil)
		r.During(func() { <-time.After(time.Minute) })
		if d := r.device(id, "is healthy", healthy); recovered(d) {
			t.Errorf("an interface that was moved has evidence of recovery: %v", d)
		}
		r.kernel.Send(uevent.Add, card, "pci", nil)
		r.device(id, "has recovered", recovered)
	})
}

// An interface without hardware is unplugged by nothing: the kernel shows the same when it is moved into a pod and back.
func TestVirtualInterfaceIsBack(t *testing.T) {
	t.Parallel()
	const id, dir = "socketcan-vcan0", "sys/devices/virtual/net/vcan0/"
	run(t, "socketcan", "", `{"presets": ["socketcan"]}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		r.change("- sys/class/net/vcan0\n- "+dir, uevent.Remove, "/devices/virtual/net/vcan0", "net")
		r.device(id, "is in a pod", nil)
		r.change(dir+"type: 280\n"+dir+"operstate: up\nsys/class/net/vcan0 -> ../../devices/virtual/net/vcan0", uevent.Add, "/devices/virtual/net/vcan0", "net")
		if d := r.device(id, "is back", healthy); recovered(d) {
			t.Errorf("it has evidence of recovery: %v", d)
		}
	})
}
