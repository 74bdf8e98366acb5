package kernel

import (
	"fmt"
	"testing"
)

// gadget makes a USB device by the kernel's gadget drivers, and plugs it into the port of dummy_hcd, a USB controller with
// one port that is made of software.
func gadget(t *testing.T, name, vendor, product string, functions ...string) {
	t.Helper()
	m.Run(t, `modprobe --all dummy_hcd libcomposite; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
		mkdir -p %[1]s/configs/c.1 && cd %[1]s && echo %[2]s >idVendor && echo %[3]s >idProduct`, directory(name), vendor, product)
	t.Cleanup(func() {
		m.Run(t, "cd %s && if [ -n \"$(cat UDC)\" ]; then echo '' >UDC; fi; rm -f configs/c.1/*.*; rmdir functions/* configs/c.1; cd .. && rmdir %s", directory(name), name)
	})
	for _, function := range functions {
		m.Run(t, "cd %[1]s && mkdir functions/%[2]s && ln -s functions/%[2]s configs/c.1/", directory(name), function)
	}
	plugGadget(t, name)
}

func directory(gadget string) string { return "/sys/kernel/config/usb_gadget/" + gadget }

func plugGadget(t *testing.T, name string) {
	t.Helper()
	m.Run(t, "echo dummy_udc.0 >%s/UDC", directory(name))
}

func unplugGadget(t *testing.T, name string) {
	t.Helper()
	m.Run(t, "echo '' >%s/UDC", directory(name))
}

// withPorts is the configuration of what gadgets are.
var withPorts = configuration("presets: [serial, coral-usb]", `"/dev/ttyACM[0-9]*", "/dev/ttyUSB[0-9]*", "/dev/bus/usb/*/*"`,
	"{name: example.com/serial, class: serial}", "{name: example.com/coral, class: coral-usb}")

// TestCoralKeepsItsIDWhenItsFirmwareIsLoaded verifies that an accelerator that comes back at its port with other IDs of
// vendor and product, as a Coral does when its firmware was loaded, has the same ID, is unhealthy for the container that
// has it meanwhile, and that a container that starts then gets the new node. It fails if an ID has vendor or product, or
// the node is kept with the device.
func TestCoralKeepsItsIDWhenItsFirmwareIsLoaded(t *testing.T) {
	const coral = "example.com/coral"
	configure(t, withPorts)
	untilCount(t, coral, 0)
	gadget(t, "coral", "0x1a6e", "0x089a", "Loopback.0")
	id := untilCount(t, coral, 1)[0]
	hold(t, "before", coral)
	if text := opens(t, "before", nodes(t, "before")...); text != "" {
		t.Error(text)
	}
	unplugGadget(t, "coral")
	untilList(t, coral, "!"+id)
	m.Run(t, "cd %s && echo 0x18d1 >idVendor && echo 0x9302 >idProduct", directory("coral"))
	plugGadget(t, "coral")
	untilList(t, coral, id)
	release(t, "before")
	products := byID(t, coral, 1, `cat $(dirname $(grep -lx "DEVNAME=bus/usb/.*/$name" /sys/bus/usb/devices/[0-9]*/uevent | tail -n 1))/idProduct`)
	if products[id] != "9302" {
		t.Errorf("a container got %v", products)
	}
}

// TestPortsOfAModem verifies that two serial ports of one USB device are two devices that keep their IDs when the kernel
// counts them the other way round, and that a container gets its own port alone. It fails if an ID has the node's name, or lacks
// the interface.
func TestPortsOfAModem(t *testing.T) {
	const serial, numbers = "example.com/serial", "until [ $(ls -d /dev/ttyACM* | wc -l) = 2 ]; do sleep 0.1; done; realpath /sys/class/tty/ttyACM*/device"
	const port = "basename $(realpath /sys/class/tty/$name/device)"
	configure(t, withPorts)
	untilCount(t, serial, 0)
	gadget(t, "modem", "0x1d6b", "0x0104", "acm.0", "acm.1")
	counted := m.Run(t, numbers)
	before := untilCount(t, serial, 2)
	ports := byID(t, serial, 2, port)
	m.Run(t, "cd /sys/bus/usb/drivers/cdc_acm; all=$(cd /sys/class/tty; for n in ttyACM*; do basename $(realpath $n/device); done); for i in $all; do echo $i >unbind; done; for i in $(tac <<<\"$all\"); do echo $i >bind; done")
	changed(t, counted, numbers)
	untilList(t, serial, before...)
	untilSame(t, ports, func() map[string]string { return byID(t, serial, 2, port) })
}

// TestStaticNodesOfPresetsOpen verifies that tun, fuse and vhost-vsock are offered before their modules are loaded, and
// open in a container. It fails if a node without a driver is not offered.
func TestStaticNodesOfPresetsOpen(t *testing.T) {
	configure(t, configuration("presets: [tun, fuse, vhost-vsock]", "/dev/net/tun, /dev/fuse, /dev/vhost-vsock",
		"{name: example.com/tun, class: tun}", "{name: example.com/fuse, class: fuse}", "{name: example.com/vhost-vsock, class: vhost-vsock}"))
	m.Run(t, "for module in tun vhost_vsock; do if [ -e /sys/module/$module ]; then modprobe --remove $module; fi; done")
	for preset, node := range map[string]string{"tun": "/dev/net/tun", "fuse": "/dev/fuse", "vhost-vsock": "/dev/vhost-vsock"} {
		resource := fmt.Sprintf("example.com/%s", preset)
		untilCount(t, resource, 1)
		hold(t, preset, resource)
		if text := opens(t, preset, node); text != "" {
			t.Error(text)
		}
		release(t, preset)
	}
}
