package device

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const acme = `
sys/devices/pci0000:00/0000:01:00.0/vendor: 0x1234
sys/devices/pci0000:00/0000:01:00.0/device: 0x0001
sys/devices/pci0000:00/0000:01:00.0/class: 0x120000
sys/devices/pci0000:00/0000:01:00.0/reset: -
sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0
sys/devices/pci0000:00/0000:01:00.0/acme/acme0/uevent: MAJOR=240\nMINOR=0\nDEVNAME=acme0
sys/class/acme/acme0 -> ../../devices/pci0000:00/0000:01:00.0/acme/acme0
dev/acme0: c 240:0
sys/class/acme/acme0/status: ALIVE
sys/class/acme/acme0/there: 1
sys/class/acme/acme0/beat: 1
sys/class/acme/acme0/errors: 5
sys/class/acme/acme0/warnings: 5
sys/class/acme/acme0/clear: -
sys/class/acme/acme0/device -> ../../../0000:01:00.0
sys/class/acme/acme0/device/aer_dev_fatal: Undefined 0\nPoisoned TLP 0\nTOTAL_ERR_FATAL 0
`

const acmeID, acmeFile = "acme-0000:01:00.0", "sys/class/acme/acme0/"

// acmeKind returns settings with a kind and further fields of it.
func acmeKind(fields string) string {
	if !strings.Contains(fields, `"edits"`) {
		fields += `, "edits": {"nodes": [{"path": "/dev/{name}"}]}`
	}
	return `{"interval": "10s", "edits": {"groups": "none"}, "kinds": [{"name": "acme", "match": {"class": "acme"}, ` + fields + `}]}`
}

// Each predicate shows its fault, with the description's code, message, recovery and reach, and
// clears it when it is over.
func TestHealth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ health, wrong, right, message string }{
		"when":    {`"when": "self.text('status') != 'ALIVE'"`, "status: LAMED", "status: ALIVE", "acme0 is dead"},
		"present": {`"present": "lost"`, "lost: 1", "-lost", "acme0 is dead (there is a file lost)"},
		"absent":  {`"absent": "/sys/class/acme/{name}/there"`, "-there", "there: 1", "there is no file /sys/class/acme/acme0/there"},
		"grows":   {`"grows": "errors"`, "errors: 7", "", "errors has grown from 5 to 7"},
		// Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats
		"grows in a table": {`"grows": "device/aer_dev_fatal#TOTAL_ERR_FATAL"`, `device/aer_dev_fatal: Undefined 0\nPoisoned TLP 3\nTOTAL_ERR_FATAL 3`, "", "device/aer_dev_fatal#TOTAL_ERR_FATAL has grown from 0 to 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := func(text string) string {
				if text[0] == '-' {
					return "- " + acmeFile + text[1:]
				}
				return acmeFile + text
			}
			run(t, "", acme, acmeKind(`"health": [{"fault": "dead", "message": "{name} is dead", "reach": "holders", `+c.health+`}]`), func(r *rig) {
				r.device(acmeID, "is healthy", healthy)
				r.tree.Change(t, line(c.wrong))
				d := r.device(acmeID, "has a fault", hasFault("dead", c.message))
				if h := d.GetHealth(); h.GetRecovery() != sdk.RecoverySelf || h.GetReach() != sdk.ReachHolders {
					t.Errorf("%v", h)
				}
				if c.right != "" {
					r.tree.Change(t, line(c.right))
				}
				r.device(acmeID, "is healthy again", healthy)
			})
		})
	}
}

// A heartbeat that stops is a fault after its time, and none when it goes on.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	run(t, "", acme, acmeKind(`"health": [{"fault": "stuck", "heartbeat": "beat", "within": "25s", "message": "reset it"}]`), func(r *rig) {
		r.device(acmeID, "is healthy", healthy)
		r.device(acmeID, "is stuck", hasFault("stuck", "reset it (beat has not changed since "))
		r.tree.Change(t, acmeFile+"beat: 2")
		r.device(acmeID, "is healthy", healthy)
	})
}

// A fault that needs a reset lasts until then, whether a counter or an event showed it; the reset
// is evidence of recovery, and what grew before it counts no more.
func TestReset(t *testing.T) {
	t.Parallel()
	const health = `"health": [{"fault": "ecc", "grows": "errors", "recovery": "reset"}, {"fault": "wedged", "event": "WEDGED", "recovery": "reset"}], `
	for name, c := range map[string]struct{ reset, file, want string }{
		"PCI":     {`{"pci": true}`, "sys/devices/pci0000:00/0000:01:00.0/reset", "1"},
		"write":   {`{"write": {"file": "clear", "value": "all of {name}"}}`, acmeFile + "clear", "all of acme0"},
		"program": {`{"program": ["/bin/sh", "-c", "echo {pci.address} >$0", "{sys.text('target')}"]}`, "done", "0000:01:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, "", acme, acmeKind(health+`"reset": `+c.reset), func(r *rig) {
				r.tree.Change(t, "sys/target: "+r.tree.Root+"/done")
				r.device(acmeID, "is healthy", healthy)
				r.tree.Change(t, acmeFile+"errors: 6")
				r.device(acmeID, "has a fault", hasFault("ecc", "grown from 5 to 6"))
				r.During(func() { <-time.After(time.Minute) })
				r.device(acmeID, "still has the fault", hasFault("ecc", "grown from 5 to 6"))
				r.reset(true)
				r.device(acmeID, "has recovered", recovered)
				r.kernel.Send(uevent.Change, "/devices/pci0000:00/0000:01:00.0", "pci", map[string]string{"WEDGED": "rebind"})
				r.device(acmeID, "has a fault", hasFault("wedged", "the kernel reported WEDGED=rebind"))
				r.reset(true)
				r.device(acmeID, "has recovered", recovered)
				if got := r.content(c.file); got[:len(c.want)] != c.want {
					t.Errorf("%s has %q, want %q", c.file, got, c.want)
				}
			})
		})
	}
}

// reset resets the device, and returns the message.
func (r *rig) reset(want bool) (message string) {
	r.t.Helper()
	return r.resetOf(acmeID, want)
}

func (r *rig) resetOf(id string, want bool) (message string) {
	r.t.Helper()
	r.During(func() {
		res, err := r.Reset(r.t.Context(), &backendv1.ResetRequest{DeviceIds: []string{id}})
		if err != nil || len(res.GetResults()) != 1 || res.GetResults()[0].GetRecovered() != want {
			r.t.Errorf("Reset: %v, %v, want recovered: %v", res, err, want)
			return
		}
		message = res.GetResults()[0].GetMessage()
	})
	return message
}

// Of several faults the gravest counts, whatever their order.
func TestGravest(t *testing.T) {
	t.Parallel()
	for _, order := range []string{
		`{"fault": "ecc", "grows": "errors", "recovery": "reboot"}, {"fault": "warned", "grows": "warnings", "recovery": "reset"}`,
		`{"fault": "warned", "grows": "warnings", "recovery": "reset"}, {"fault": "ecc", "grows": "errors", "recovery": "reboot"}`,
	} {
		run(t, "", acme, acmeKind(`"health": [`+order+`, {"fault": "dead", "present": "lost"}], "reset": {"pci": true}`), func(r *rig) {
			r.device(acmeID, "is healthy", healthy)
			r.tree.Change(t, acmeFile+"errors: 6\n"+acmeFile+"warnings: 6\n"+acmeFile+"lost: 1")
			r.device(acmeID, "has the gravest fault", hasFault("ecc", ""))
		})
	}
}

// A file of health that stays open is read at the interval, though it was replaced, and by its path once an
// event has come: a link may lead to another file.
func TestHealthOfAnotherFile(t *testing.T) {
	t.Parallel()
	of := "sys/devices/pci0000:00/0000:01:00.0/"
	run(t, "", acme+of+"one/status: ALIVE\n"+of+"two/status: LAMED\n"+acmeFile+"part -> ../../one",
		acmeKind(`"health": [{"fault": "dead", "when": "self.text('part/status') != 'ALIVE'", "message": "{self.text('part/status')}"}]`), func(r *rig) {
			r.device(acmeID, "is healthy", healthy)
			r.During(func() { <-time.After(time.Minute) }) // from here on the files are polled
			began := time.Now()
			r.tree.Change(t, "- "+of+"one/status\n"+of+"one/status: BROKEN")
			r.device(acmeID, "has a fault", hasFault("dead", "BROKEN"))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the fault was found after %v, and the interval is 10s", took)
			}
			r.change(acmeFile+"part -> ../../two", uevent.Change, "/"+strings.TrimPrefix(of, "sys/")+"acme/acme0", "acme")
			r.device(acmeID, "has another fault", hasFault("dead", "LAMED"))
		})
}

// A counter that cannot be read for a while is compared with what it was before.
func TestCounterThatIsUnreadForAWhile(t *testing.T) {
	t.Parallel()
	run(t, "", acme, acmeKind(`"health": [{"fault": "ecc", "grows": "errors", "recovery": "reset"}], "reset": {"pci": true}`), func(r *rig) {
		r.device(acmeID, "is healthy", healthy)
		r.tree.Change(t, "- "+acmeFile+"errors\n"+acmeFile+"errors/")
		r.device(acmeID, "is unknown", func(d *backendv1.Device) bool {
			return d.GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN
		})
		r.tree.Change(t, "- "+acmeFile+"errors\n"+acmeFile+"errors: 6")
		r.device(acmeID, "has a fault", hasFault("ecc", "grown from 5 to 6"))
	})
}

// Health that cannot be read is unknown, with the file; a counter that a driver lacks is none.
func TestUnknown(t *testing.T) {
	t.Parallel()
	run(t, "", acme, acmeKind(`"health": [{"fault": "dead", "when": "self.number('status') > 0"}, {"fault": "ecc", "grows": "missing"}]`), func(r *rig) {
		r.device(acmeID, "is unknown", func(d *backendv1.Device) bool {
			return d.GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN
		})
		r.tree.Change(t, acmeFile+"status: 0")
		r.device(acmeID, "is healthy", healthy)
	})
}

// A device whose reset would reach a function of another device is not reset, whichever of them the
// reset is for, nor a function with virtual ones.
func TestResetOfWhatOthersHave(t *testing.T) {
	t.Parallel()
	const second = "sys/devices/pci0000:00/0000:01:00.1/"
	const lines = second + "vendor: 0x1234\n" + second + "device: 0x0002\n" + second + "class: 0x120000\n" + second + "reset: -\n" +
		second + `acme/acme1/uevent: MAJOR=240\nMINOR=1\nDEVNAME=acme1` + "\ndev/acme1: c 240:1\nsys/bus/pci/devices/0000:01:00.1 -> ../../../devices/pci0000:00/0000:01:00.1\n" +
		"sys/class/acme/acme1 -> ../../devices/pci0000:00/0000:01:00.1/acme/acme1\n"
	const other = `{"name": "other", "match": {"pci": {"devices": ["0002"]}}, "edits": {"nodes": [{"path": "/dev/acme1"}]}, "reset": {"pci": true}}`
	kinds := func(more string) string {
		return `{"edits": {"groups": "none"}, "kinds": [{"name": "acme", "match": {"class": "acme"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}, "mergeBy": "all", "reset": {"pci": true}}` + more + `]}`
	}
	run(t, "", acme+lines, kinds(", "+other), func(r *rig) {
		r.device(acmeID, "is healthy", healthy)
		r.device("other-0000:01:00.1", "is healthy", healthy)
		for id, reached := range map[string]string{acmeID: "other-0000:01:00.1", "other-0000:01:00.1": acmeID} {
			if m := r.resetOf(id, false); !strings.Contains(m, "would also reset") || !strings.Contains(m, reached) {
				t.Errorf("%s: %q", id, m)
			}
		}
		r.configure(kinds(""))
		r.device("other-0000:01:00.1", "is gone", nil)
		r.tree.Change(t, second+"sriov_numvfs: 2")
		if m := r.resetOf(acmeID, false); !strings.Contains(m, "2 virtual functions") {
			t.Errorf("%q", m)
		}
		for _, at := range []string{"0000:01:00.0", "0000:01:00.1"} {
			if got := r.content("sys/bus/pci/devices/" + at + "/reset"); got != "-" {
				t.Errorf("%s was reset: %q", at, got)
			}
		}
		r.tree.Change(t, second+"sriov_numvfs: 0")
		r.resetOf(acmeID, true)
	})
}

// An event with a value is a fault with that value alone. Linux reports a recovery from an error of PCI Express
// that failed with an event of the bridge above the function (pcie_do_recovery in drivers/pci/pcie/err.c):
// all functions below it have the fault, and no others.
func TestEventWithValue(t *testing.T) {
	t.Parallel()
	const bridge, first, second = "/devices/pci0000:00/0000:00:01.0", "acme-0000:01:00.0", "acme-0000:02:00.0"
	function := func(at, name, number string) string {
		dir := "sys" + at + "/"
		return dir + "vendor: 0x1234\n" + dir + "device: 0x0001\n" + dir + "class: 0x120000\nsys/bus/pci/devices/" + path.Base(at) + " -> ../../.." + at + "\n" +
			dir + "acme/" + name + `/uevent: MAJOR=240\nMINOR=` + number + `\nDEVNAME=` + name + "\nsys/class/acme/" + name + " -> ../.." + at + "/acme/" + name + "\ndev/" + name + ": c 240:" + number + "\n"
	}
	tree := function(bridge+"/0000:01:00.0", "acme0", "0") + function("/devices/pci0000:00/0000:00:02.0/0000:02:00.0", "acme1", "1")
	run(t, "", tree, acmeKind(`"health": [{"fault": "pcie", "event": "ERROR_EVENT=FAILED_RECOVERY"}, {"fault": "wedged", "event": "WEDGED"}]`), func(r *rig) {
		r.device(first, "is healthy", healthy)
		for _, value := range []string{"BEGIN_RECOVERY", "SUCCESSFUL_RECOVERY"} { // pci_uevent_ers
			r.kernel.Send(uevent.Change, bridge+"/0000:01:00.0", "pci", map[string]string{"ERROR_EVENT": value})
			r.kernel.Send(uevent.Change, bridge, "pci", map[string]string{"ERROR_EVENT": value})
			r.During(func() { <-time.After(time.Minute) })
			r.device(first, "is healthy after "+value, healthy)
		}
		r.kernel.Send(uevent.Change, bridge, "pci", map[string]string{"ERROR_EVENT": "FAILED_RECOVERY", "DEVICE_ONLINE": "0"})
		r.device(first, "has a fault", hasFault("pcie", "the kernel reported ERROR_EVENT=FAILED_RECOVERY"))
		r.device(second, "is healthy", healthy)
		r.kernel.Send(uevent.Bind, bridge+"/0000:01:00.0", "pci", map[string]string{"DRIVER": "acme"})
		r.device(first, "is healthy again", healthy)
		r.kernel.Send(uevent.Change, "/devices/pci0000:00/0000:00:02.0/0000:02:00.0", "pci", map[string]string{"ERROR_EVENT": "FAILED_RECOVERY"})
		r.device(second, "has a fault", hasFault("pcie", ""))
		r.device(first, "is healthy", healthy)
	})
}

// Each preset whose devices are on PCI has the fault of a recovery that failed, for each device on its tree that is
// on PCI and has no other fault.
func TestPresetsOnPCI(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames(t) {
		run(t, name, "", `{"presets": ["`+name+`"]}`, func(r *rig) {
			r.Until("anything", func(*backendv1.Inventory) bool { return true })
			for _, d := range r.Last.GetDevices() {
				at := d.GetPciBusId()
				if at == "" || !healthy(d) {
					continue
				}
				to, err := os.Readlink(filepath.Join(r.tree.Root, "sys/bus/pci/devices", at))
				if err != nil {
					t.Fatal(err)
				}
				r.kernel.Send(uevent.Change, strings.TrimPrefix(to, "../../.."), "pci", map[string]string{"ERROR_EVENT": "FAILED_RECOVERY"})
				r.device(d.GetId(), "has a fault", hasFault("pcie-error", at))
			}
		})
	}
}

// A USB device that the node may not use, as by USBGuard, has a fault, whatever its kind describes.
func TestNotAuthorized(t *testing.T) {
	t.Parallel()
	const file = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2.3/authorized"
	for name, settings := range map[string]string{
		"usb":    `{"presets": ["usb"]}`,
		"dongle": `{"kinds": [{"name": "dongle", "match": {"usb": {"products": ["0403:6001"]}}}]}`,
	} {
		run(t, "usb", file+": 1", settings, func(r *rig) {
			id := name + "-0403-6001-A50285BI"
			r.device(id, "is healthy", healthy)
			r.tree.Change(t, file+": 0")
			r.device(id, "has a fault", hasFault("not-authorized", "1-2.3 is not authorized"))
			r.tree.Change(t, file+": 1")
			r.device(id, "is healthy again", healthy)
		})
	}
}
