package device

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/devicetree"
)

// A USB adapter that is unplugged is no longer listed; plugged into another port it gets another
// number, and is the same device with another node.
func TestReplugged(t *testing.T) {
	t.Parallel()
	const id = "serial-0403-6010-FT4XK2B1-if0"
	run(t, "serial", "", `{"presets": ["serial"], "interval": "1h"}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		const hub = "sys/devices/pci0000:00/0000:00:14.0/usb1/"
		r.change("- "+hub+"1-2\n- sys/class/tty/ttyUSB0\n- sys/class/tty/ttyUSB1\n- dev/ttyUSB0\n- dev/ttyUSB1",
			uevent.Remove, "/devices/x/ttyUSB0", "tty", "DEVNAME=ttyUSB0")
		r.device(id, "is gone", nil)
		r.change(hub+"1-9/idVendor: 0403\n"+hub+"1-9/idProduct: 6010\n"+hub+"1-9/serial: FT4XK2B1\n"+
			hub+`1-9/1-9:1.0/ttyUSB7/tty/ttyUSB7/uevent: MAJOR=188\nMINOR=7\nDEVNAME=ttyUSB7`+"\ndev/ttyUSB7: c 188:7\n"+
			"sys/class/tty/ttyUSB7 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-9/1-9:1.0/ttyUSB7/tty/ttyUSB7",
			uevent.Add, "/devices/x/ttyUSB7", "tty", "DEVNAME=ttyUSB7")
		d := r.device(id, "is back", healthy)
		if nodes := d.GetEdits().GetDeviceNodes(); len(nodes) != 1 || nodes[0].GetPath() != "/dev/ttyUSB7" {
			t.Errorf("nodes %v", nodes)
		}
	})
}

// A device whose serial number cannot be read has a fault, and no other identity.
func TestUnreadableSerialNumber(t *testing.T) {
	t.Parallel()
	const id, file = "serial-0403-6010-FT4XK2B1-if0", "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/serial"
	run(t, "serial", "", `{"presets": ["serial"]}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		before := len(r.Last.GetDevices())
		r.tree.Change(t, "- "+file+"\n"+file+"/")
		r.device(id, "has a fault", func(d *backendv1.Device) bool { return d.GetHealth().GetCode() != "" })
		if got := len(r.Last.GetDevices()); got != before {
			t.Errorf("%d devices were %d: %v", got, before, r.Last)
		}
	})
}

// The nodes of one camera, or of one interface of a serial adapter, that are devices of their own have an ID each.
func TestSeveralNodesOfOneInterface(t *testing.T) {
	t.Parallel()
	const camera, adapter = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/", "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
	node := func(number, at, name string) string {
		return "dev/" + name + ": c " + number + "\nsys/dev/char/" + number + " -> ../../" + strings.TrimPrefix(at, "sys/") + name + "\n" + at + name + "/dev: " + number + "\n"
	}
	tree := devicetree.New(t, camera+"idVendor: 046d\n"+camera+"idProduct: 0825\n"+
		node("81:0", camera+"1-1:1.0/video4linux/", "video0")+camera+"1-1:1.0/video4linux/video0/index: 0\n"+
		node("81:1", camera+"1-1:1.0/video4linux/", "video1")+camera+"1-1:1.0/video4linux/video1/index: 1\n"+
		adapter+"idVendor: 9710\n"+adapter+"idProduct: 7840\n"+
		node("188:0", adapter+"1-2:1.0/ttyUSB0/tty/", "ttyUSB0")+adapter+"1-2:1.0/ttyUSB0/port_number: 0\n"+adapter+"1-2:1.0/ttyUSB0/tty/ttyUSB0/device -> ../../../ttyUSB0\n"+
		node("188:1", adapter+"1-2:1.0/ttyUSB1/tty/", "ttyUSB1")+adapter+"1-2:1.0/ttyUSB1/port_number: 1\n"+adapter+"1-2:1.0/ttyUSB1/tty/ttyUSB1/device -> ../../../ttyUSB1\n")
	devices, problems := list(t, tree.Host(), `{"edits": {"groups": "none"}, "kinds": [
		{"name": "video", "match": {"paths": ["/dev/video*"]}}, {"name": "tty", "match": {"paths": ["/dev/ttyUSB*"]}}]}`)
	var got []string
	for _, d := range devices {
		got = append(got, d.GetId()+" "+d.GetEdits().GetDeviceNodes()[0].GetPath())
	}
	slices.Sort(got)
	want := []string{
		"tty-9710-7840-port-0000:00:14.0-2-if0 /dev/ttyUSB0", "tty-9710-7840-port-0000:00:14.0-2-if0-1 /dev/ttyUSB1",
		"video-046d-0825-port-0000:00:14.0-1-if0 /dev/video0", "video-046d-0825-port-0000:00:14.0-1-if0-1 /dev/video1",
	}
	if !slices.Equal(got, want) || len(problems) > 0 {
		t.Errorf("%q, want %q; problems %q", got, want, problems)
	}
}

// A GPU whose driver is unbound has a fault and stays listed; bound again, as another card, it is
// the same device and has recovered.
func TestDriverUnbound(t *testing.T) {
	t.Parallel()
	const id, gpu = "intel-gpu-0000:00:02.0", "sys/devices/pci0000:00/0000:00:02.0/"
	run(t, "intel-gpu", "", `{"presets": ["intel-gpu"], "interval": "1h"}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		r.change("- "+gpu+"driver\n- "+gpu+"drm\n- sys/class/drm/card0\n- sys/class/drm/renderD128\n- dev/dri/card0", uevent.Unbind, "/devices/pci0000:00/0000:00:02.0", "pci")
		r.device(id, "has a fault", hasFault("driver-unbound", "bind 0000:00:02.0"))
		r.change(gpu+"driver -> ../../../bus/pci/drivers/xe\n"+
			gpu+`drm/card9/uevent: MAJOR=226\nMINOR=9\nDEVNAME=dri/card9`+"\n"+gpu+"drm/renderD137/x: y\ndev/dri/card9: c 226:9\ndev/dri/renderD137: c 226:137\n"+
			"sys/class/drm/card9 -> ../../devices/pci0000:00/0000:00:02.0/drm/card9", uevent.Add, "/devices/pci0000:00/0000:00:02.0/drm/card9", "drm")
		d := r.device(id, "has recovered", recovered)
		if nodes := d.GetEdits().GetDeviceNodes(); len(nodes) != 2 || nodes[0].GetPath() != "/dev/dri/card9" {
			t.Errorf("nodes %v", nodes)
		}
	})
}

// Objects of one group are one device, with the ID of the first by PCI address and the nodes of
// all; the first sets a variable, and joined ones have the values of all.
func TestGroup(t *testing.T) {
	t.Parallel()
	lines := ""
	for name, at := range map[string]string{"npu0": "0000:02:00.0", "npu1": "0000:01:00.0", "npu2": "0000:03:00.0"} {
		lines += strings.NewReplacer("AT", at, "NPU", name).Replace(`
			sys/devices/pci0000:00/AT/vendor: 0x1234
			sys/devices/pci0000:00/AT/device: 0x1
			sys/devices/pci0000:00/AT/class: 0x120000
			sys/devices/pci0000:00/AT/npu/NPU/uevent: DEVNAME=NPU
			sys/bus/pci/devices/AT -> ../../../devices/pci0000:00/AT
			sys/class/npu/NPU -> ../../devices/pci0000:00/AT/npu/NPU
			dev/NPU: c 240:0`)
	}
	devices, problems := list(t, devicetree.New(t, lines+"\nsys/devices/pci0000:00/0000:02:00.0/npu/npu0/lost: 1").Host(), `{"edits": {"groups": "none"}, "kinds": [{"name": "npu", "match": {"class": "npu"},
		"mergeBy": "{name == 'npu2' ? 'b' : 'a'}", "attributes": {"first": "name"}, "health": [{"fault": "dead", "present": "lost"}],
		"edits": {"nodes": [{"path": "/dev/{name}"}], "env": {"FIRST": "{name}"}, "joinedEnv": {"ALL": {"value": "{pci.address}"}, "KIND": {"value": "{kind}"}}}}]}`)
	if len(devices) != 2 || len(problems) > 0 {
		t.Fatalf("%v, %q", devices, problems)
	}
	d := devices[0]
	env := d.GetEdits().GetEnv()
	if d.GetId() != "npu-0000:01:00.0" || d.GetAttributes()["first"].GetStringValue() != "npu1" || d.GetHealth().GetCode() != "dead" ||
		len(d.GetEdits().GetDeviceNodes()) != 2 || env["FIRST"] != "npu1" || env["ALL"] != "0000:01:00.0,0000:02:00.0" || env["KIND"] != "npu" {
		t.Errorf("%v", d)
	}
}

// Devices of a kind have links by their distance on PCI, and devices that are not on PCI have none.
func TestLinks(t *testing.T) {
	t.Parallel()
	lines := "sys/class/npu/npu9/x: y\nsys/class/npu/npu9/uevent: DEVNAME=npu9\ndev/npu9: c 240:9"
	for i, dir := range []string{"0000:01:00.0/0000:02:01.0/0000:03:00.0", "0000:01:00.0/0000:02:02.0/0000:04:00.0", "0000:05:00.0"} {
		at := "devices/pci0000:00/0000:00:01.0/" + dir
		lines += strings.NewReplacer("DIR", at, "AT", path.Base(dir), "NPU", fmt.Sprint("npu", i)).Replace(`
			sys/DIR/vendor: 0x1234
			sys/DIR/device: 0x1
			sys/DIR/class: 0x120000
			sys/DIR/npu/NPU/uevent: DEVNAME=NPU
			sys/bus/pci/devices/AT -> ../../../DIR
			sys/class/npu/NPU -> ../../DIR/npu/NPU
			dev/NPU: c 240:0`)
	}
	devices, problems := list(t, devicetree.New(t, lines).Host(), `{"edits": {"groups": "none"}, "kinds": [{"name": "npu", "match": {"class": "npu"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`)
	got := map[string]string{}
	for _, d := range devices {
		for _, l := range d.GetLinks() {
			got[d.GetId()+" "+l.GetPeerId()] = strings.TrimPrefix(l.GetKind().String(), "LINK_KIND_")
		}
	}
	const a, b, c = "npu-0000:03:00.0", "npu-0000:04:00.0", "npu-0000:05:00.0"
	want := map[string]string{
		a + " " + b: "PCIE_SWITCH", b + " " + a: "PCIE_SWITCH",
		a + " " + c: "PCIE_MULTI_SWITCH", c + " " + a: "PCIE_MULTI_SWITCH", b + " " + c: "PCIE_MULTI_SWITCH", c + " " + b: "PCIE_MULTI_SWITCH",
	}
	if len(devices) != 4 || !maps.Equal(got, want) {
		t.Errorf("%d devices, links %v, want %v; %q", len(devices), got, want, problems)
	}
}

// A Coral on USB is the same device before and after its firmware was loaded, with another node.
func TestCoralGetsItsFirmware(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
	run(t, "coral-usb", "", `{"presets": ["coral-usb"]}`, func(r *rig) {
		r.Until("both", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 2 })
		id := r.Last.GetDevices()[0].GetId()
		r.change(at+"idVendor: 18d1\n"+at+"idProduct: 9302\n"+at+"devnum: 12\n"+at+`uevent: MAJOR=189\nMINOR=11\nDEVNAME=bus/usb/001/012`+
			"\n- dev/bus/usb/001/004\ndev/bus/usb/001/012: c 189:11", uevent.Add, strings.TrimPrefix(at, "sys"), "usb")
		r.device(id, "has its firmware", func(d *backendv1.Device) bool {
			nodes := d.GetEdits().GetDeviceNodes()
			return healthy(d) && d.GetAttributes()["firmwareLoaded"].GetBoolValue() && len(nodes) == 1 && nodes[0].GetPath() == "/dev/bus/usb/001/012"
		})
	})
}

// Devices that appear without an event of the kernel are found at the interval; events that are
// about other devices cause no scan.
func TestInterval(t *testing.T) {
	t.Parallel()
	run(t, "", "", `{"kinds": [{"name": "acme", "match": {"paths": ["/dev/acme[0-9]*"]}}], "interval": "1m"}`, func(r *rig) {
		r.Until("nothing", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 0 })
		began := time.Now()
		r.change("dev/acme0: c 240:0\nsys/dev/char/240:0 -> ../../devices/acme/acme0\nsys/devices/acme/acme0/dev: 240:0", uevent.Add, "/devices/virtual/net/veth0", "net")
		r.device("acme-acme0", "is healthy", healthy)
		if took := time.Since(began); took < 50*time.Second {
			t.Errorf("it was found after %v", took)
		}
		began = time.Now()
		r.change("- dev/acme0\n- sys/devices/acme/acme0\n- sys/dev/char/240:0", uevent.Remove, "/devices/acme/acme0", "acme", "DEVNAME=acme0")
		r.device("acme-acme0", "is gone", nil)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("its end was found after %v", took)
		}
	})
}

// At the interval only the files of health are read; the others are after an event, and without one
// within 10 minutes. A class whose events may go to another network namespace is read whole each 30 s.
func TestWhatIsReadAtTheInterval(t *testing.T) {
	t.Parallel()
	const id, fields = "acme-0000:01:00.0", `"attributes": {"model": "self.text('model')"}, "edits": {"env": {"A": "{name}"}}, "health": [{"fault": "dead", "present": "lost"}]`
	for class, fresh := range map[string]bool{"acme": false, "net": true} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			const at = "sys/devices/pci0000:00/0000:01:00.0/"
			tree := at + "vendor: 0x1234\n" + at + "device: 0x1\n" + at + "class: 0x120000\nsys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n" +
				at + "x/a0/model: 1\nsys/class/" + class + "/a0 -> ../../devices/pci0000:00/0000:01:00.0/x/a0"
			run(t, "", tree, `{"interval": "10s", "kinds": [{"name": "acme", "match": {"class": "`+class+`"}, `+fields+`}]}`, func(r *rig) {
				r.device(id, "is healthy", healthy)
				r.During(func() { <-time.After(40 * time.Second) })
				r.tree.Change(t, at+"x/a0/model: 2\n"+at+"x/a0/lost: 1")
				r.device(id, "has a fault", hasFault("dead", "lost"))
				r.During(func() { <-time.After(40 * time.Second) })
				d := r.device(id, "has the fault still", hasFault("dead", "lost"))
				if got := d.GetAttributes()["model"].GetStringValue(); (got == "2") != fresh {
					t.Errorf("model %q", got)
				}
				model := func(want string) func(*backendv1.Device) bool {
					return func(d *backendv1.Device) bool { return d.GetAttributes()["model"].GetStringValue() == want }
				}
				began := time.Now()
				r.change("", uevent.Change, "/devices/pci0000:00/0000:01:00.0/x/a0", class)
				r.device(id, "is read again", model("2"))
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("read %v after an event", took)
				}
				r.During(func() { <-time.After(40 * time.Second) })
				r.tree.Change(t, at+"x/a0/model: 3")
				r.device(id, "is read without an event", model("3"))
			})
		})
	}
}

// An object that two kinds match is a device of the first in the settings, with a
// problem, also if that matches it later.
func TestObjectOfTwoKinds(t *testing.T) {
	t.Parallel()
	settings := `{"edits": {"groups": "none"}, "kinds": [{"name": "one", "match": {"class": "acme", "where": "self.text('status') == 'ALIVE'"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}},
		{"name": "two", "match": {"class": "acme"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`
	const message = "two-0000:01:00.0 of two is left out: it is one-0000:01:00.0 of one, which comes first in the settings; have only one of them match it"
	run(t, "", acme+acmeFile+"status: NEW", settings, func(r *rig) {
		is := func(id string, problems ...string) {
			t.Helper()
			r.Until(id, func(inv *backendv1.Inventory) bool {
				if len(inv.GetDevices()) > 1 {
					t.Errorf("two devices are listed: %v", inv)
				}
				return len(inv.GetDevices()) == 1 && inv.GetDevices()[0].GetId() == id && slices.Equal(inv.GetProblems(), problems)
			})
		}
		is("two-0000:01:00.0")
		r.change(acmeFile+"status: ALIVE", uevent.Change, "/devices/x", "acme")
		is("one-0000:01:00.0", message)
	})
}

// twin returns the lines of a USB adapter at a port, with the serial number of all adapters.
func twin(port string, minor int) string {
	return strings.NewReplacer("PORT", port, "MINOR_", fmt.Sprint(minor)).Replace(`
sys/devices/pci0000:00/0000:00:14.0/usb1/PORT/idVendor: 1a86
sys/devices/pci0000:00/0000:00:14.0/usb1/PORT/idProduct: 7523
sys/devices/pci0000:00/0000:00:14.0/usb1/PORT/serial: 0001
sys/devices/pci0000:00/0000:00:14.0/usb1/PORT/PORT:1.0/ttyUSBMINOR_/tty/ttyUSBMINOR_/uevent: MAJOR=188\nMINOR=MINOR_\nDEVNAME=ttyUSBMINOR_
dev/ttyUSBMINOR_: c 188:MINOR_
sys/class/tty/ttyUSBMINOR_ -> ../../devices/pci0000:00/0000:00:14.0/usb1/PORT/PORT:1.0/ttyUSBMINOR_/tty/ttyUSBMINOR_
`)
}

// Adapters with one serial number have their ports in their IDs, and a problem names them. One alone
// has the ID by its serial number.
func TestTwins(t *testing.T) {
	t.Parallel()
	const one, first, second = "serial-1a86-7523-0001-if0", "serial-1a86-7523-port-0000:00:14.0-2-if0", "serial-1a86-7523-port-0000:00:14.0-3-if0"
	run(t, "", twin("1-2", 0)+twin("1-3", 1), `{"presets": ["serial"], "interval": "1h"}`, func(r *rig) {
		r.device(first, "is healthy", healthy)
		d := r.device(second, "is healthy", healthy)
		if nodes := d.GetEdits().GetDeviceNodes(); len(r.Last.GetDevices()) != 2 || nodes[0].GetPath() != "/dev/ttyUSB1" {
			t.Errorf("%v", r.Last)
		}
		if p := strings.Join(r.Last.GetProblems(), ""); !strings.Contains(p, "1-2, 1-3 have the same vendor, product and serial number") || strings.Contains(p, "left out") {
			t.Errorf("problems %q", p)
		}
		r.change("- sys/devices/pci0000:00/0000:00:14.0/usb1/1-2\n- sys/class/tty/ttyUSB0\n- dev/ttyUSB0", uevent.Remove, "/x", "tty")
		r.device(one, "is the only one", healthy)
		if problems := r.Last.GetProblems(); len(r.Last.GetDevices()) != 1 || len(problems) > 0 {
			t.Errorf("%v", r.Last)
		}
	})
}

// Two adapters that exchange the names of their nodes, as when both are plugged in again in another order, have each
// its own node half a second after the kernel's last event: until then a container can get the other's.
func TestSwappedNames(t *testing.T) {
	t.Parallel()
	const first, second = "serial-1a86-7523-port-0000:00:14.0-2-if0", "serial-1a86-7523-port-0000:00:14.0-3-if0"
	run(t, "", twin("1-2", 0)+twin("1-3", 1), `{"presets": ["serial"]}`, func(r *rig) {
		has := func(node string) func(*backendv1.Device) bool {
			return func(d *backendv1.Device) bool {
				return healthy(d) && d.GetEdits().GetDeviceNodes()[0].GetPath() == node
			}
		}
		r.device(first, "has its node", has("/dev/ttyUSB0"))
		r.During(func() { <-time.After(time.Minute + 100*time.Millisecond) })
		const ports = "sys/devices/pci0000:00/0000:00:14.0/usb1/"
		r.change("- "+ports+"1-2/1-2:1.0/ttyUSB0\n- "+ports+"1-3/1-3:1.0/ttyUSB1\n- dev/ttyUSB0\n- dev/ttyUSB1\n"+twin("1-2", 1)+twin("1-3", 0), uevent.Add, "/x", "tty")
		began := time.Now()
		r.device(first, "has another node", has("/dev/ttyUSB1"))
		r.device(second, "has another node", has("/dev/ttyUSB0"))
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("reported after %v", took)
		}
	})
}

// A device that was replaced by another one at its port between two scans is no longer listed.
func TestReplacedAtItsPort(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
	run(t, "", twin("1-2", 0), `{"presets": ["serial"], "interval": "1h"}`, func(r *rig) {
		r.device("serial-1a86-7523-0001-if0", "is healthy", healthy)
		r.change(at+"serial: 0002", uevent.Add, "/x", "tty")
		r.device("serial-1a86-7523-0002-if0", "is healthy", healthy)
		r.device("serial-1a86-7523-0001-if0", "is gone", nil)
	})
}

// A driver that was unbound and bound between two scans has set the device up again: a fault of an event, and one of a
// counter, is over, also one that only the core knows, as this process has started since. A device that was
// healthy stays so.
func TestBoundAgain(t *testing.T) {
	t.Parallel()
	const pci = "/devices/pci0000:00/0000:01:00.0"
	for name, c := range map[string]struct {
		action          uevent.Action
		path, subsystem string
	}{"the driver": {uevent.Bind, pci, "pci"}, "the object": {uevent.Add, pci + "/acme/acme0", "acme"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := acmeKind(`"health": [{"fault": "wedged", "event": "WEDGED", "recovery": "reset"}, {"fault": "ecc", "grows": "errors", "recovery": "reset"}], "reset": {"pci": true}`)
			run(t, "", acme, settings, func(r *rig) {
				r.device(acmeID, "is healthy", healthy)
				r.kernel.Send(c.action, c.path, c.subsystem, nil)
				for _, inv := range r.During(func() { <-time.After(time.Minute) }) {
					if !healthy(inv.GetDevices()[0]) {
						t.Errorf("it was healthy: %v", inv)
					}
				}
				r.device(acmeID, "has evidence against a fault of before", recovered)
				r.tree.Change(t, acmeFile+"errors: 6")
				r.device(acmeID, "has a fault", hasFault("ecc", "from 5 to 6"))
				r.tree.Change(t, acmeFile+"errors: 0")
				r.During(func() { <-time.After(time.Minute) })
				r.device(acmeID, "has it still", hasFault("ecc", ""))
				r.kernel.Send(c.action, c.path, c.subsystem, nil)
				r.device(acmeID, "has recovered", recovered)
				r.start(settings)
				r.device(acmeID, "was found by another process", func(d *backendv1.Device) bool { return healthy(d) && !recovered(d) })
				r.kernel.Send(c.action, c.path, c.subsystem, map[string]string{"SYNTH_UUID": "0"})
				for _, inv := range r.During(func() { <-time.After(time.Minute) }) {
					t.Errorf("udevadm trigger changed it: %v", inv)
				}
				r.kernel.Send(c.action, c.path, c.subsystem, nil)
				r.device(acmeID, "has evidence for the other process", recovered)
				r.kernel.Send(uevent.Change, pci, "pci", map[string]string{"WEDGED": "rebind"})
				r.device(acmeID, "has a fault", hasFault("wedged", ""))
				r.kernel.Send(uevent.Bind, "/devices/pci0000:00/0000:09:00.0", "pci", nil)
				r.During(func() { <-time.After(time.Minute) })
				r.device(acmeID, "has it still", hasFault("wedged", ""))
				r.kernel.Send(c.action, c.path, c.subsystem, nil)
				r.device(acmeID, "has recovered", recovered)
			})
		})
	}
}
