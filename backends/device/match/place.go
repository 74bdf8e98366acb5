package match

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// What the kernel numbers in the order in which it finds things, in names of sysfs: the group is the number.
var (
	// numbered are a name and a number (video5, i2c-1, rngd!npu0mgmt), or a number alone (a VFIO group); platform devices with the ID
	// PLATFORM_DEVID_AUTO (xhci-hcd.0.auto: drivers/base/platform.c), those of ChipIdea's USB controllers
	// (ci_hdrc.0: ci_hdrc_add_device in drivers/usb/chipidea/core.c), and those of the auxiliary bus
	// (mlx5_core.sf.2: drivers/base/auxiliary.c). Addresses and names of firmware (fe801000.csi, MSFT0101:00)
	// and IDs that a driver gives (vivid.0) are none.
	numbered = regexp.MustCompile(`^(?:(?:iio:)?[A-Za-z_!-]+([0-9]+)[^.:@]*|([0-9]+)|[\w-]+\.([0-9]+)\.auto|ci_hdrc\.([0-9]+)|[\w-]+\.[\w-]+\.([0-9]+))$`)
	// onBus are the number of a bus and the address on it, which is the second group: 1-0010 (I2C), 1-2.3 and
	// 1-2.3:1.0 (USB), spi0.1, mmc0:0001, wq0.1.
	onBus = regexp.MustCompile(`^(?:([0-9]+)-|(?:spi|mmc|wq)([0-9]+)[.:])([0-9a-f.:]+)$`)
	uuid  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// counted returns where the number is that the kernel counts in a name.
func counted(name string) (from, to int, ok bool) {
	if uuid.MatchString(name) {
		return 0, 0, false
	}
	for _, names := range []*regexp.Regexp{numbered, onBus} {
		groups := names.FindStringSubmatchIndex(name)
		for i := 2; i < len(groups); i += 2 {
			if groups[i] >= 0 {
				return groups[i], groups[i+1], true
			}
		}
	}
	return 0, 0, false
}

// Counted reports whether a name in sysfs has a number that the kernel counts in the order in which it finds
// devices. It is also true for names of that form that an administrator gave, such as vcan0.
func Counted(name string) bool {
	_, _, ok := counted(name)
	return ok
}

// Renumbered returns a name with another number in place of the one that the kernel counts; the name itself
// if it has none.
func Renumbered(name string) string {
	from, to, _ := counted(name)
	if from == to {
		return name
	}
	return name[:to] + "1" + name[to:]
}

// Own returns the name of what the object is on that the kernel does not count: its own, such as kvm, or that
// of the nearest device above it, such as vivid.0 for video5, or fe804000.i2c-0010 for a device on I2C. It is
// empty if there is none, as for a device that a driver alone makes.
func (o *Object) Own() string {
	if !strings.HasPrefix(o.Dir, "devices/") && !Counted(o.Name) { // a static node, or a directory of nodes
		return o.Name
	}
	return own(o.sysfs, o.Dir)
}

// own returns the name that is not counted of a device at a directory, or of the nearest above it.
func own(sysfs, dir string) string {
	on := "" // the address on the bus
	for strings.HasPrefix(dir, "devices/") && path.Dir(dir) != "devices" {
		name := path.Base(dir)
		if groups := onBus.FindStringSubmatch(name); groups != nil {
			on = "-" + groups[3] + on
		} else if !Counted(name) {
			return name + on
		}
		dir = above(sysfs, dir)
	}
	return ""
}

// above returns the directory of the device above another one; "" if there is none. A member of a class has
// a link to it, and every device has a file uevent, which the directories between devices do not have
// (device_add in drivers/base/core.c).
func above(sysfs, dir string) string {
	if to, err := os.Readlink(filepath.Join(sysfs, dir, "device")); err == nil {
		if to = path.Join(dir, to); strings.HasPrefix(dir, to+"/") {
			return to
		}
	}
	dir = path.Dir(dir)
	if _, err := os.Stat(filepath.Join(sysfs, dir, "uevent")); err != nil {
		return ""
	}
	return dir
}

// Location returns where the USB device is plugged in, without the number of its bus, which the kernel counts
// (usb_register_bus in drivers/usb/core/hcd.c): the controller's PCI address or the name of its platform device,
// and the ports from there, such as 0000:00:14.0-2.3; 0 for a root hub. A controller has two buses that count
// their ports alike; those of USB 3 are 0000:00:14.0-usb3-2.3. byCount: the kernel counts the controller, too.
func (p *Port) Location() (at string, byCount bool, err error) {
	root, dir := p.Dir, path.Dir(p.Dir)
	for isUSB(path.Base(dir)) {
		root, dir = dir, path.Dir(dir)
	}
	controller := own(p.sysfs, dir)
	if controller == "" {
		controller, byCount = path.Base(dir), Counted(path.Base(dir))
	}
	const superSpeed = "03" // USB_HUB_PR_SS in include/uapi/linux/usb/ch11.h
	protocol, err := (&Object{Dir: root, sysfs: p.sysfs}).Text("bDeviceProtocol")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("the bus of %s: %w", p.Name, err)
	}
	if protocol == superSpeed {
		controller += "-usb3"
	}
	return controller + "-" + p.ports(), byCount, nil
}

// ports returns the ports from the root hub to the device, such as 2.3; 0 for a root hub.
func (p *Port) ports() string {
	if _, ports, ok := strings.Cut(p.Name, "-"); ok {
		return ports
	}
	return "0"
}

// IsRoot reports whether the device is a root hub.
func (p *Port) IsRoot() bool { return p.ports() == "0" }

// Compare orders objects as they are plugged in: by PCI address, those without one first, then by USB port and
// interface. It is 0 for objects of one function or interface.
func (o *Object) Compare(other *Object) int {
	at, ports := o.plugged()
	otherAt, otherPorts := other.plugged()
	return cmp.Or(at.Compare(otherAt), compareNames(ports, otherPorts))
}

func (o *Object) plugged() (at pci.Address, ports string) {
	if f, err := o.Function(); err == nil {
		at = f.Address
	}
	if p, err := o.Port(); err == nil {
		ports = p.ports() + ":" + p.Interface
	}
	return at, ports
}

// compareNames compares names, runs of digits as numbers: video9 is before video10.
func compareNames(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := number(x), number(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		v, w := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(v), len(w)), cmp.Compare(v, w)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// number returns how many digits a text begins with.
func number(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }
