package device

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A device whose object is absent though its hardware is there has a fault with the reason, if the kernel's files show it,
// and is as before when the object is back.
func TestWhyAnObjectIsAbsent(t *testing.T) {
	t.Parallel()
	const (
		usb = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
		hca = "sys/devices/pci0000:3b/0000:3b:00.0/"
	)
	for name, c := range map[string]struct {
		preset, lines, settings, id, goes, back, fault, message string
		reach                                                   backendv1.Reach
	}{
		"a serial adapter that is not authorized": {
			"", twin("1-2", 0) + usb + "authorized: 1\n", `{"presets": ["serial"]}`, "serial-1a86-7523-0001-if0",
			"- " + usb + "1-2:1.0\n- sys/class/tty/ttyUSB0\n- dev/ttyUSB0\n" + usb + "authorized: 0", twin("1-2", 0) + usb + "authorized: 1",
			"not-authorized", "the USB device 1-2 is not authorized", 0,
		},
		"a serial adapter without its driver": {
			"", twin("1-2", 0) + usb + "authorized: 1\n", `{"presets": ["serial"]}`, "serial-1a86-7523-0001-if0",
			"- " + usb + "1-2:1.0\n- sys/class/tty/ttyUSB0\n- dev/ttyUSB0", twin("1-2", 0), "device-incomplete", "", 0,
		},
		"an HCA in a pod's network namespace": {
			"rdma", "", `{"presets": ["rdma"]}`, "rdma-0000:5e:00.0",
			"- sys/class/infiniband/mlx5_10\n- sys/devices/pci0000:5e/0000:5e:00.0/infiniband/mlx5_10",
			"sys/devices/pci0000:5e/0000:5e:00.0/infiniband/mlx5_10/ports/1/state: 4: ACTIVE\nsys/devices/pci0000:5e/0000:5e:00.0/infiniband/mlx5_10/device -> ../../../0000:5e:00.0\n" +
				"sys/class/infiniband/mlx5_10 -> ../../devices/pci0000:5e/0000:5e:00.0/infiniband/mlx5_10",
			"in-other-namespace", "mlx5_10 is in another network namespace", sdk.ReachNewHolders,
		},
		"an HCA without its driver": {
			"rdma", "", `{"presets": ["rdma"]}`, "rdma-0000:3b:00.0", "- sys/class/infiniband/mlx5_1\n- " + hca + "infiniband\n- " + hca + "driver",
			hca + "driver -> ../../../bus/pci/drivers/mlx5_core\n" + hca + "infiniband/mlx5_1/ports/1/state: 4: ACTIVE\n" + hca + "infiniband/mlx5_1/device -> ../../../0000:3b:00.0\n" +
				"sys/class/infiniband/mlx5_1 -> ../../devices/pci0000:3b/0000:3b:00.0/infiniband/mlx5_1",
			"driver-unbound", "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c.preset, c.lines, c.settings, func(r *rig) {
				r.device(c.id, "is listed", func(d *backendv1.Device) bool { return d.GetEdits() != nil })
				r.During(func() { <-time.After(time.Minute) })
				r.change(c.goes, uevent.Remove, "/x", "tty")
				d := r.device(c.id, "is absent", hasFault(c.fault, c.message))
				if h := d.GetHealth(); h.GetRecovery() != sdk.RecoverySelf || c.reach != 0 && h.GetReach() != c.reach {
					t.Errorf("%v", h)
				}
				r.During(func() { <-time.After(time.Minute) })
				r.device(c.id, "is absent still", hasFault(c.fault, c.message))
				r.change(c.back, uevent.Add, "/x", "tty")
				r.device(c.id, "is back", healthy)
			})
		})
	}
}
