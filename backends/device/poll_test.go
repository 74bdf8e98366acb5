package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// inTime is within which a change of a file of health is reported by default, without any event.
const inTime = 3 * time.Second

// The kernel changes these files at once, and sends no uevent: rtnetlink reports interfaces, in their network
// namespace alone, and nothing the others. Each is reported in time, whatever the device is on.
func TestHealthWithoutEvents(t *testing.T) {
	t.Parallel()
	const (
		can      = "sys/devices/pci0000:00/0000:03:00.0/net/can0/"
		usb      = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-4/"
		function = "sys/devices/pci0000:00/0000:01:00.0/"
		flags    = `{"kinds": [{"name": "nic", "id": "{name}", "match": {"class": "net", "names": ["can0"]}, "edits": {"env": {"A": "1"}}, "health": [{"fault": "down", "when": "%s"}]}]}`
	)
	of := func(health string) string {
		return strings.Replace(acmeKind(`"health": [`+health+`]`), `"interval": "10s", `, "", 1)
	}
	for name, c := range map[string]struct{ preset, lines, settings, id, wrong, right, fault string }{
		"socketcan": {"socketcan", "", `{"presets": ["socketcan"]}`, "socketcan-0000:03:00.0", can + "operstate: down", can + "operstate: up", "link-down"},
		"the physical function of sriov": {
			"sriov", "", `{"presets": ["sriov"]}`, "0000:3b:00.2",
			"sys/devices/pci0000:3a/0000:3b:00.0/net/ens1f0/operstate: down", "sys/devices/pci0000:3a/0000:3b:00.0/net/ens1f0/operstate: up", "link-down",
		},
		"rdma": {
			"rdma", "", `{"presets": ["rdma"]}`, "rdma-0000:3b:00.0",
			"sys/class/infiniband/mlx5_1/ports/1/state: 1: DOWN", "sys/class/infiniband/mlx5_1/ports/1/state: 4: ACTIVE", "link-down",
		},
		"flags":   {"socketcan", can + "flags: 0x1", fmt.Sprintf(flags, `self.text('flags') == '0x0'`), "can0", can + "flags: 0x0", can + "flags: 0x1", "down"},
		"carrier": {"socketcan", can + "carrier: 1", fmt.Sprintf(flags, `self.text('carrier') != '1'`), "can0", can + "carrier: 0", can + "carrier: 1", "down"},
		"authorized": {
			"socketcan", usb + "authorized: 1\n" + usb + "busnum: 1\n" + usb + "devnum: 4\ndev/bus/usb/001/004: c 189:3\nsys/dev/char/189:3 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-4\n" +
				usb + `uevent: MAJOR=189\nMINOR=3\nDEVNAME=bus/usb/001/004` + "\n" + usb + "bDeviceClass: 00\nsys/bus/usb/devices/1-4 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-4",
			`{"presets": ["usb"]}`, "usb-1d50-606f-port-0000:00:14.0-4", usb + "authorized: 0", usb + "authorized: 1", "not-authorized",
		},
		"a counter":        {"", acme, of(`{"fault": "ecc", "grows": "errors"}`), acmeID, acmeFile + "errors: 6", "", "ecc"},
		"a counter of AER": {"", acme, of(`{"fault": "ecc", "grows": "device/aer_dev_fatal#TOTAL_ERR_FATAL"}`), acmeID, acmeFile + `device/aer_dev_fatal: TOTAL_ERR_FATAL 1`, "", "ecc"},
		"the power state":  {"", acme + function + "power_state: D0", of(`{"fault": "cold", "when": "pci.text('power_state') == 'D3cold'"}`), acmeID, function + "power_state: D3cold", function + "power_state: D0", "cold"},
		"the width of the link": {"", acme + function + "current_link_width: 16", of(`{"fault": "narrow", "when": "pci.text('current_link_width') != '16'"}`), acmeID,
			function + "current_link_width: 8", function + "current_link_width: 16", "narrow"},
		"a file that comes":          {"", acme, of(`{"fault": "lost", "present": "lost"}`), acmeID, acmeFile + "lost: 1", "- " + acmeFile + "lost", "lost"},
		"a directory without events": {"", acme, `{"kinds": [{"name": "acme", "match": {"paths": ["/sys/devices/pci0000:00/*/acme/acme[0-9]*"]}, "edits": {"nodes": [{"path": "/dev/acme0"}]}, "health": [{"fault": "lost", "present": "lost"}]}]}`, acmeID, acmeFile + "lost: 1", "- " + acmeFile + "lost", "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c.preset, c.lines, c.settings, func(r *rig) {
				r.device(c.id, "is healthy", healthy)
				for _, rest := range []time.Duration{50 * time.Second, 15 * time.Minute} { // after scans, and with polls alone
					for left := rest; left > 0; left -= time.Minute {
						r.During(func() { <-time.After(min(left, time.Minute)) })
					}
					r.device(c.id, "is healthy", healthy)
					changed := time.Now()
					r.tree.Change(t, c.wrong)
					r.device(c.id, "has a fault", hasFault(c.fault, ""))
					r.tree.Change(t, c.right)
					r.device(c.id, "is healthy", healthy)
					if took := time.Since(changed); took > 2*inTime {
						t.Errorf("the fault and its end were reported after %v", took)
					}
					if c.right == "" {
						break // the counter does not grow twice
					}
				}
			})
		})
	}
}

// An interface that comes, goes or gets another name is found in time: it has no event where the agent has a network
// namespace of its own. Other interfaces, of which a node has one for each pod, cause no scan.
func TestInterfacesWithoutEvents(t *testing.T) {
	t.Parallel()
	const first, second = "sys/devices/virtual/net/vcan0/", "sys/devices/virtual/net/vcan1/"
	run(t, "socketcan", "", `{"presets": ["socketcan"]}`, func(r *rig) {
		r.device("socketcan-vcan0", "is healthy", healthy)
		r.During(func() { <-time.After(time.Minute + time.Second/2) })
		in := func(what string, change string, id string, want func(*backendv1.Device) bool) {
			t.Helper()
			r.within(inTime, change, id, what, want)
		}
		made := strings.ReplaceAll(`DIRtype: 280
DIRdev_port: 0
DIRdev_id: 0x0
DIRoperstate: up
`, "DIR", second)
		in("was made", made+"sys/class/net/vcan1 -> ../../devices/virtual/net/vcan1", "socketcan-vcan1", healthy)
		in("has gone", "- sys/class/net/vcan1\n- "+second, "socketcan-vcan1", nil)
		in("is in a pod", "- sys/class/net/vcan0\n- "+first, "socketcan-vcan0", nil)
		r.tree.Change(t, strings.ReplaceAll(made, second, first)+"sys/class/net/vcan0 -> ../../devices/virtual/net/vcan0")
		r.device("socketcan-vcan0", "is back", healthy)
	})
}
