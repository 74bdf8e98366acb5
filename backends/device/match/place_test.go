package match_test

import (
	"path"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/test/devicetree"
)

// Names that the kernel counts, and those of firmware, hardware and drivers.
func TestCounted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"video5": true, "ttyUSB0": true, "card1": true, "pcmC0D0p": true, "i2c-1": true, "gpiochip12": true, "rngd!npu0mgmt": true, "iio:device0": true, "12": true,
		"xhci-hcd.0.auto": true, "ci_hdrc.1": true, "mlx5_core.sf.2": true, "1-0010": true, "1-2.3": true, "1-2.3:1.0": true, "spi0.1": true, "mmc0:0001": true, "wq0.1": true,
		"kvm": false, "sgx_enclave": false, "vhost-net": false, "fe801000.csi": false, "MSFT0101:00": false, "LNXSYBUS:00": false, "soc:sound": false, "vivid.0": false, "snd_dummy.1": false,
		"0000:00:14.0": false, "00:05": false, "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001": false, "e3b8f4f2-509f-382f-3c1e-e6bfe0fa1001": false, "": false,
	} {
		if got := match.Counted(name); got != want || (match.Renumbered(name) != name) != want {
			t.Errorf("%q: %v, renumbered %q, want %v", name, got, match.Renumbered(name), want)
		}
	}
}

// An object is on the nearest device whose name the kernel does not count: by the link of a member of a class,
// by the directory of a device on a bus. Directories between devices have no file uevent.
func TestOwn(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, strings.ReplaceAll(`
sys/devices/platform/uevent: x
sys/devices/platform/soc/uevent: x
D/vivid.0/video4linux/video0/device -> ../../../vivid.0
D/soc/fe200000.gpio/uevent: x
D/soc/fe200000.gpio/gpiochip0/uevent: x
D/soc/fe804000.i2c/uevent: x
D/soc/fe804000.i2c/i2c-1/uevent: x
D/soc/fe804000.i2c/i2c-1/1-0010/uevent: x
D/soc/fe804000.i2c/i2c-1/1-0010/video4linux/v4l-subdev0/device -> ../../../1-0010
D/soc/fe804000.i2c/i2c-1/i2c-dev/i2c-1/device -> ../../../i2c-1
D/xhci-hcd.0.auto/x/x0/device -> ../../../xhci-hcd.0.auto
D/serial8250/uevent: x
D/serial8250/tty/ttyS1/device -> ../../../serial8250
sys/devices/virtual/misc/kvm/uevent: x
sys/devices/virtual/video4linux/video10/uevent: x
sys/devices/evil/evil0/device -> evil0/device
sys/devices/pnp0/00:05/00:05:0/00:05:0.0/tty/ttyS0/device -> ../../../00:05:0.0
`, "D/", "sys/devices/platform/"))
	for dir, want := range map[string]string{
		"platform/vivid.0/video4linux/video0": "vivid.0", "platform/soc/fe200000.gpio/gpiochip0": "fe200000.gpio",
		"platform/soc/fe804000.i2c/i2c-1/1-0010/video4linux/v4l-subdev0": "fe804000.i2c-0010", "platform/soc/fe804000.i2c/i2c-1/i2c-dev/i2c-1": "fe804000.i2c",
		"platform/xhci-hcd.0.auto/x/x0": "", "platform/serial8250/tty/ttyS1": "", "virtual/misc/kvm": "kvm", "virtual/video4linux/video10": "",
		"evil/evil0": "", "pnp0/00:05/00:05:0/00:05:0.0/tty/ttyS0": "00:05:0.0",
	} {
		found, problems := match.Finder{Host: tree.Host()}.Find(&match.Selector{Paths: []string{"/sys/devices/" + dir}})
		if len(found) != 1 {
			t.Fatalf("%s: %v", dir, problems)
		}
		if got := found[0].Own(); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

// A USB port is named by its controller, whose own name may be counted, and the ports from there. The two buses
// of a USB 3 controller count their ports alike.
func TestLocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ above, below, controller, ports string }{
		{"pci0000:00/0000:00:14.0", "usb1/1-2/1-2.3", "0000:00:14.0", "2.3"},
		{"pci0000:00/0000:00:14.0", "usb12/12-2/12-2.3", "0000:00:14.0", "2.3"},
		{"pci0000:00/0000:00:14.0", "usb2", "0000:00:14.0", "0"},
		{"pci0000:00/0000:00:14.0/dwc3.0.auto/xhci-hcd.1.auto", "usb3/3-1", "0000:00:14.0", "1"},
		{"platform/soc/fe200000.usb/xhci-hcd.0.auto", "usb3/3-1", "fe200000.usb", "1"},
		{"platform/soc/2184000.usb/ci_hdrc.0", "usb3/3-1", "2184000.usb", "1"},
		{"platform/dummy_hcd.0", "usb3/3-1", "dummy_hcd.0", "1"},
		{"platform/xhci-hcd.0.auto", "usb3/3-1", "counted xhci-hcd.0.auto", "1"},
	} {
		root, _, _ := strings.Cut(c.below, "/")
		for protocol, usb3 := range map[string]string{"": "-", "01": "-", "03": "-usb3-"} {
			lines := "sys/devices/" + c.above + "/" + c.below + "/uevent: x\n"
			for dir := c.above; dir != "."; dir = path.Dir(dir) {
				lines += "sys/devices/" + dir + "/uevent: x\n"
			}
			if protocol != "" {
				lines += "sys/devices/" + c.above + "/" + root + "/bDeviceProtocol: " + protocol + "\n"
			}
			found, problems := match.Finder{Host: devicetree.New(t, lines).Host()}.Find(&match.Selector{Paths: []string{"/sys/devices/" + c.above + "/" + c.below}})
			if len(found) != 1 {
				t.Fatalf("%+v: %v", c, problems)
			}
			at, byCount, err := must(found[0].Port()).Location()
			if byCount {
				at = "counted " + at
			}
			if want := c.controller + usb3 + c.ports; err != nil || at != want {
				t.Errorf("%+v, protocol %q: %q, %v, want %q", c, protocol, at, err, want)
			}
		}
	}
}

// Objects are in the order of their numbers.
func TestOrder(t *testing.T) {
	t.Parallel()
	lines := ""
	for _, name := range []string{"video10", "video9", "video0", "a", "video", "video1x2"} {
		lines += "sys/class/v/" + name + "/x: x\n"
	}
	found, _ := match.Finder{Host: devicetree.New(t, lines).Host()}.Find(&match.Selector{Class: "v"})
	var got []string
	for _, o := range found {
		got = append(got, o.Name)
	}
	if want := "a video video0 video1x2 video9 video10"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
