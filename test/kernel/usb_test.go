package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

// adapter plugs in a serial adapter (ftdi_sio). All have the same serial number, as cheap adapters do.
func adapter(t *testing.T, id, bus, port string) {
	t.Helper()
	if _, err := m.Command("chardev-add", machine.Args{"id": "c-" + id, "backend": machine.Args{"type": "null", "data": machine.Args{}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := m.Command("chardev-remove", machine.Args{"id": "c-" + id}); err != nil {
			t.Error(err)
		}
	})
	plugAdapter(t, id, bus, port)
}

// plugAdapter plugs an adapter in that was there before.
func plugAdapter(t *testing.T, id, bus, port string) {
	t.Helper()
	plug(t, "usb-serial", id, machine.Args{"bus": bus + ".0", "port": port, "chardev": "c-" + id, "always-plugged": true, "serial": "A50285BI"})
}

// TestSerialTwinsOverSwappedNames verifies that of two adapters with one serial number each has the ID of its port,
// also when the kernel gives them each other's names, and that a container that is started then gets the node of its
// adapter. It fails if the ID of a twin has the node's name, or a node is kept with the device instead of being looked up.
func TestSerialTwinsOverSwappedNames(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/serial", 0)
	adapter(t, "left", "usb0", "1")
	untilCount(t, "example.com/serial", 1)
	adapter(t, "right", "usb0", "2")
	before := untilCount(t, "example.com/serial", 2)
	places := placesByID(t)
	// The one that comes first has the lower number.
	m.Run(t, "cd /sys/bus/usb/drivers/ftdi_sio; all=$(ls -d *:*); for i in $all; do echo $i >unbind; done; for i in $(tac <<<\"$all\"); do echo $i >bind; done")
	untilList(t, "example.com/serial", before...)
	untilSame(t, places, func() map[string]string { return placesByID(t) })
}

// placesByID starts two containers, each with one adapter, and returns the place of the node that each ID gave.
func placesByID(t *testing.T) map[string]string {
	t.Helper()
	byID := map[string]string{}
	for _, pod := range []string{"first", "second"} {
		got := hold(t, pod, "example.com/serial")
		has := nodes(t, pod)
		if len(has) != 1 || opens(t, pod, has...) != "" {
			t.Fatalf("%s has %q: %s", pod, has, opens(t, pod, has...))
		}
		byID[got.Devices[0]] = placeOf(t, has[0])
	}
	for _, pod := range []string{"first", "second"} {
		release(t, pod)
	}
	return byID
}

// placeOf is the controller and the port of a serial node, without the number of the bus.
func placeOf(t *testing.T, node string) string {
	t.Helper()
	return m.Run(t, `realpath /sys/class/tty/%s/device | sed -E 's#.*/(0000:[0-9a-f:.]+)/usb[0-9]+/(.*/)?[0-9]+-([0-9.]+)/[^/]+:.*#\1 \3#'`,
		strings.TrimPrefix(node, "/dev/"))
}

// TestControllersProbedInAnotherOrder verifies that adapters at two USB controllers keep their IDs when the kernel counts
// the controllers' buses the other way round, and that a container gets the node of its adapter. It fails if an ID has
// the number of a bus, or a port without its controller.
func TestControllersProbedInAnotherOrder(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/serial", 0)
	adapter(t, "left", "usb0", "1")
	adapter(t, "right", "usb1", "1")
	before := untilCount(t, "example.com/serial", 2)
	places := placesByID(t)
	controllers := m.Run(t, "cd /sys/bus/pci/drivers/xhci_hcd; all=$(ls -d 0000:*); for c in $all; do echo $c >unbind; done; tac <<<\"$all\"")
	// The adapters are found a while after their controllers: without this wait the list below may be the one from before.
	untilCount(t, "example.com/serial", 0)
	m.Run(t, "cd /sys/bus/pci/drivers/xhci_hcd; for c in %s; do echo $c >bind; done", strings.Join(strings.Fields(controllers), " "))
	untilList(t, "example.com/serial", before...)
	untilSame(t, places, func() map[string]string { return placesByID(t) })
}

// TestHubWithChildrenUnplugged verifies that with a hub all devices behind it go from kubelet's list, that one that a
// container has stays as unhealthy, and that both are back as before. It fails if a device that is allocated is left out when
// its object is gone.
func TestHubWithChildrenUnplugged(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/serial", 0)
	plug(t, "usb-hub", "hub", machine.Args{"bus": "usb1.0", "port": "3"})
	adapter(t, "near", "usb1", "3.1")
	adapter(t, "far", "usb1", "3.2")
	before := untilCount(t, "example.com/serial", 2)
	got := hold(t, "holder", "example.com/serial")
	for _, id := range []string{"near", "far", "hub"} {
		unplug(t, id)
	}
	untilList(t, "example.com/serial", "!"+got.Devices[0])
	plug(t, "usb-hub", "hub", machine.Args{"bus": "usb1.0", "port": "3"})
	for id, port := range map[string]string{"near": "3.1", "far": "3.2"} {
		plugAdapter(t, id, "usb1", port)
	}
	untilList(t, "example.com/serial", slices.Clone(before)...)
}

// TestUnauthorizedAdapterIsNotOffered verifies that an adapter whose use the node forbids by its file authorized, as
// USBGuard does, is not offered, that one that was authorized before is unhealthy meanwhile, whether a container has it or
// not, and that it is back when it is authorized again. It fails if a device that is plugged in is left out when its object
// is gone.
func TestUnauthorizedAdapterIsNotOffered(t *testing.T) {
	const authorized = "cd $(dirname $(grep -lx 0403 /sys/bus/usb/devices/*/idVendor)); echo %d >authorized"
	const byDefault = "for hub in /sys/bus/usb/devices/usb*; do echo %d >$hub/authorized_default; done"
	configure(t, standard)
	untilCount(t, "example.com/serial", 0)
	t.Cleanup(func() { m.Run(t, byDefault, 1) })
	m.Run(t, byDefault, 0)
	unchanged(t, "example.com/serial", nil, func() {
		adapter(t, "left", "usb0", "1")
		m.Run(t, "until grep -lx 0403 /sys/bus/usb/devices/*/idVendor; do sleep 0.1; done")
	})
	m.Run(t, authorized, 1)
	id := untilCount(t, "example.com/serial", 1)[0]
	for _, held := range []bool{false, true} {
		if held {
			hold(t, "pod", "example.com/serial")
		}
		m.Run(t, authorized, 0)
		untilList(t, "example.com/serial", "!"+id)
		unchanged(t, "example.com/serial", []string{"!" + id}, func() {})
		m.Run(t, authorized, 1)
		untilList(t, "example.com/serial", id)
	}
}

// TestUSBDeviceThatIsNotAuthorized verifies that a USB device, which keeps its node while it is not authorized, is
// unhealthy meanwhile. It fails if health is presence.
func TestUSBDeviceThatIsNotAuthorized(t *testing.T) {
	const authorized = "echo %d >$(dirname $(grep -lx A50285BI /sys/bus/usb/devices/*/serial))/authorized"
	const usb = "example.com/usb"
	configure(t, configuration("presets: [usb]", `"/dev/bus/usb/*/*"`, "{name: "+usb+", class: usb}"))
	untilCount(t, usb, 0)
	adapter(t, "left", "usb0", "1")
	id := untilCount(t, usb, 1)[0]
	m.Run(t, authorized, 0)
	untilList(t, usb, "!"+id)
	m.Run(t, authorized, 1)
	untilList(t, usb, id)
}
