package match_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// machine has devices of each source, and traps.
const machine = `
sys/devices/virtual/misc/kvm/dev: 10:232
sys/devices/virtual/misc/kvm/uevent: MAJOR=10\nMINOR=232\nDEVNAME=kvm
sys/class/misc/kvm -> ../../devices/virtual/misc/kvm
sys/devices/virtual/misc/tun/uevent: MAJOR=10\nMINOR=200\nDEVNAME=net/tun
sys/class/misc/tun -> ../../devices/virtual/misc/tun
sys/class/misc/away -> ../../devices/virtual/misc/away
sys/class/misc/evil -> ../../../etc
sys/class/misc/version: 1.0
sys/dev/char/10:232 -> ../../devices/virtual/misc/kvm
sys/dev/char/1:1 -> ../../devices/virtual/mem/mem
sys/devices/virtual/mem/mem/dev: 1:1
dev/kvm: c 10:232
dev/mem: c 1:1
dev/old: c 99:9
dev/fuse: c 10:229
dev/uinput: c 99:7
dev/loop0: b 7:0
dev/plain: text
dev/rig/a: c 240:0
dev/rig/by-path/platform-rig -> ../a
dev/rig/loop1: b 7:1
dev/rig/mem: c 1:1
dev/rig/more/b: c 240:1
dev/rig/plain: text
dev/rig/shm/c: c 240:2
dev/rigs/by-id/x -> ../../rig/a
dev/round -> round

sys/devices/pci0000:00/0000:00:02.0/vendor: 0x8086
sys/devices/pci0000:00/0000:00:02.0/device: 0x56C0
sys/devices/pci0000:00/0000:00:02.0/class: 0x030000
sys/devices/pci0000:00/0000:00:02.0/subsystem_vendor: 0x8086
sys/devices/pci0000:00/0000:00:02.0/subsystem_device: 0x4905
sys/devices/pci0000:00/0000:00:02.0/numa_node: 1
sys/devices/pci0000:00/0000:00:02.0/driver -> ../../../bus/pci/drivers/xe
sys/devices/pci0000:00/0000:00:02.0/drm/card0/uevent: MAJOR=226\nMINOR=0\nDEVNAME=dri/card0
sys/class/drm/card0 -> ../../devices/pci0000:00/0000:00:02.0/drm/card0
sys/class/drm/card0-DP-1 -> ../../devices/pci0000:00/0000:00:02.0/drm/card0/card0-DP-1
sys/devices/pci0000:00/0000:00:02.0/drm/card0/card0-DP-1/status: connected
sys/bus/pci/devices/0000:00:02.0 -> ../../../devices/pci0000:00/0000:00:02.0
sys/devices/pci0000:00/0000:00:14.0/vendor: 0x8086
sys/devices/pci0000:00/0000:00:14.0/device: 0xa36d
sys/devices/pci0000:00/0000:00:14.0/class: 0x0c0330
sys/devices/pci0000:00/0000:00:14.0/numa_node: 0
sys/bus/pci/devices/0000:00:14.0 -> ../../../devices/pci0000:00/0000:00:14.0
sys/bus/pci/devices/garbage -> ../../../devices/pci0000:00

sys/devices/pci0000:00/0000:00:14.0/usb1/idVendor: 1d6b
sys/devices/pci0000:00/0000:00:14.0/usb1/idProduct: 0002
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idVendor: 0403
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idProduct: 6001
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/serial: A50285BI
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/uevent: MAJOR=189\nMINOR=4\nDEVNAME=bus/usb/001/005
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/bInterfaceNumber: 00
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0/uevent: MAJOR=188\nMINOR=0\nDEVNAME=ttyUSB0
sys/class/tty/ttyUSB0 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0
sys/bus/usb/devices/usb1 -> ../../../devices/pci0000:00/0000:00:14.0/usb1
sys/bus/usb/devices/1-2 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-2
sys/bus/usb/devices/1-2:1.0 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0

sys/devices/virtual/block/loop0/uevent: MAJOR=7\nMINOR=0\nDEVNAME=loop0
sys/devices/virtual/bad/bad0/uevent: MAJOR=x\nDEVNAME=../etc/passwd
`

func find(t *testing.T, s match.Selector) (names, problems []string) {
	t.Helper()
	tree := devicetree.New(t, machine)
	found, wrong := match.Finder{Host: tree.Host(), Node: devicetree.Node}.Find(&s)
	for _, o := range found {
		names = append(names, o.Name+" "+o.Node)
	}
	for _, p := range wrong {
		problems = append(problems, fmt.Sprint(p.Name, ": ", p.Err))
	}
	return names, problems
}

// Each source finds what it selects, by name, with the device nodes; what is not a device is
// left out with a problem that says why, and what went meanwhile without one.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source         match.Selector
		want, problems []string
	}{
		"class":               {match.Selector{Class: "misc", Names: []string{"kvm", "t*"}}, []string{"kvm /dev/kvm", "tun /dev/net/tun"}, []string{"evil: it leads out of sysfs"}},
		"class, all":          {match.Selector{Class: "drm"}, []string{"card0 /dev/dri/card0", "card0-DP-1 "}, nil},
		"no such class":       {match.Selector{Class: "accel"}, nil, nil},
		"path":                {match.Selector{Paths: []string{"/dev/kvm"}}, []string{"kvm /dev/kvm"}, nil},
		"alternatives":        {match.Selector{Paths: []string{"/dev/neuron*", "/dev/k*", "/dev/m*"}}, []string{"kvm /dev/kvm"}, nil},
		"memory by name":      {match.Selector{Paths: []string{"/dev/mem"}}, []string{"mem /dev/mem"}, nil},
		"memory by pattern":   {match.Selector{Paths: []string{"/dev/m*"}}, nil, []string{"mem: /dev/mem gives control of the node"}},
		"block device":        {match.Selector{Paths: []string{"/dev/loop0"}}, nil, []string{"loop0: /dev/loop0 is a block device"}},
		"block in sysfs":      {match.Selector{Paths: []string{"/sys/devices/virtual/block/*"}}, nil, []string{"it is a block device"}},
		"no device":           {match.Selector{Paths: []string{"/dev/plain"}}, nil, []string{"plain: /dev/plain is no device"}},
		"a node left behind":  {match.Selector{Paths: []string{"/dev/old"}}, nil, []string{"old: /dev/old is the device 99:9, which the kernel does not have"}},
		"a static node":       {match.Selector{Paths: []string{"/dev/fu*"}}, []string{"fuse /dev/fuse"}, nil},
		"no static node":      {match.Selector{Paths: []string{"/dev/uinput"}}, nil, []string{"uinput: /dev/uinput is the device 99:7, which the kernel does not have"}},
		"a directory":         {match.Selector{Paths: []string{"/dev/rig"}}, []string{"rig /dev/rig"}, nil},
		"directories":         {match.Selector{Paths: []string{"/dev/rig*"}}, []string{"rig /dev/rig"}, nil},
		"in a directory":      {match.Selector{Paths: []string{"/dev/rig/[lm]o*"}}, []string{"more /dev/rig/more"}, []string{"loop1: /dev/rig/loop1 is a block device"}},
		"links alone":         {match.Selector{Paths: []string{"/dev/rigs"}}, nil, []string{"rigs: /dev/rigs is a directory without device nodes"}},
		"cannot be listed":    {match.Selector{Paths: []string{"/dev/round/*"}}, nil, []string{": /dev/round/*: devices may be missing, as a directory cannot be listed (open round: too many levels"}},
		"node outside of dev": {match.Selector{Paths: []string{"/sys/devices/virtual/bad/*"}}, nil, []string{"no number"}},
		"behind links":        {match.Selector{Paths: []string{"/sys/class/drm/card0/card0-*"}}, []string{"card0-DP-1 "}, nil},
		"PCI by vendor":       {match.Selector{PCI: &match.PCI{Vendors: []string{"8086"}}}, []string{"0000:00:02.0 ", "0000:00:14.0 "}, nil},
		"PCI by device":       {match.Selector{PCI: &match.PCI{Devices: []string{"8086:56c0"}}}, []string{"0000:00:02.0 "}, nil},
		"PCI by class":        {match.Selector{PCI: &match.PCI{Classes: []string{"0c03"}}}, []string{"0000:00:14.0 "}, nil},
		"PCI by driver":       {match.Selector{PCI: &match.PCI{Drivers: []string{"xe", "i915"}}}, []string{"0000:00:02.0 "}, nil},
		"PCI without driver":  {match.Selector{PCI: &match.PCI{Drivers: []string{""}}}, []string{"0000:00:14.0 "}, nil},
		"PCI by subsystem":    {match.Selector{PCI: &match.PCI{Subsystems: []string{"8086:4905"}}}, []string{"0000:00:02.0 "}, nil},
		"PCI, not all":        {match.Selector{PCI: &match.PCI{Vendors: []string{"8086"}, Devices: []string{"1234"}}}, nil, nil},
		"USB":                 {match.Selector{USB: &match.USB{}}, []string{"1-2 /dev/bus/usb/001/005", "usb1 "}, nil},
		"USB by product":      {match.Selector{USB: &match.USB{Vendors: []string{"0403"}, Products: []string{"6001"}}}, []string{"1-2 /dev/bus/usb/001/005"}, nil},
		"USB by serial":       {match.Selector{USB: &match.USB{Serials: []string{"A5*"}}}, []string{"1-2 /dev/bus/usb/001/005"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := find(t, c.source)
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			if len(problems) != len(c.problems) {
				t.Fatalf("problems %q, want %q", problems, c.problems)
			}
			for i, want := range c.problems {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %q, want %q", problems[i], want)
				}
			}
		})
	}
}

// An object knows the hardware that it is on, by walking up.
func TestHardware(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, machine)
	one := func(s match.Selector) *match.Object {
		found, problems := match.Finder{Host: tree.Host()}.Find(&s)
		if len(found) != 1 {
			t.Fatalf("%v, %v", found, problems)
		}
		return found[0]
	}
	serial := one(match.Selector{Class: "tty", Names: []string{"ttyUSB0"}})
	at, port := serial.Hardware(), must(serial.Port())
	if !at.USB || at.PCI != nil || !strings.HasSuffix(at.Dir, "usb1/1-2") || port.Name != "1-2" || port.Interface != "0" {
		t.Errorf("%+v, port %+v", at, port)
	}
	if f := must(serial.Function()); f.Name != "0000:00:14.0" || serial.NUMANode() != 0 {
		t.Errorf("function %s, NUMA node %d", f.Name, serial.NUMANode())
	}
	card := one(match.Selector{Class: "drm", Names: []string{"card0"}})
	if at := card.Hardware(); at.PCI == nil || at.PCI.String() != "0000:00:02.0" || card.NUMANode() != 1 {
		t.Errorf("%+v, NUMA node %d", at, card.NUMANode())
	}
	kvm := one(match.Selector{Class: "misc", Names: []string{"kvm"}})
	if at := kvm.Hardware(); at.PCI != nil || at.Dir != "devices/virtual/misc/kvm" || kvm.NUMANode() != -1 || kvm.Number.String() != "10:232" {
		t.Errorf("%+v, NUMA node %d, number %v", at, kvm.NUMANode(), kvm.Number)
	}
	if _, err := kvm.Port(); err == nil {
		t.Error("kvm is on USB")
	}
	tree.Change(t, "sys/devices/platform/i2c-1/1-0068/rtc/rtc0/x: y\nsys/class/rtc/rtc0 -> ../../devices/platform/i2c-1/1-0068/rtc/rtc0")
	if at := one(match.Selector{Class: "rtc"}).Hardware(); at.USB {
		t.Errorf("a device on I2C is on USB: %+v", at)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A file of an object is never outside of it.
func TestFilesAreBelowTheObject(t *testing.T) {
	t.Parallel()
	o := match.Root(devicetree.New(t, machine).Host().Sysfs)
	for _, file := range []string{"", "/etc/passwd", "../dev/plain", "class/../../dev/plain", "a\x00b"} {
		if text, err := o.Text(file); err == nil || !strings.Contains(err.Error(), "no file below") {
			t.Errorf("%q: %q, %v", file, text, err)
		}
	}
	for text, want := range map[string]uint64{"42": 42, "0x1F": 31} {
		tree := devicetree.New(t, "sys/n: "+text)
		if n, err := match.Root(tree.Host().Sysfs).Uint("n"); n != want || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"x", "-1", "0x", "9223372036854775808"} {
		tree := devicetree.New(t, "sys/n: "+text)
		if n, err := match.Root(tree.Host().Sysfs).Uint("n"); err == nil || !strings.Contains(err.Error(), "63 bits") {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

// FILE#NAME is a value of a table, whose names may have spaces (sysfs-bus-pci-devices-aer_stats); a name that it
// lacks is as an absent file.
func TestTable(t *testing.T) {
	t.Parallel()
	o := match.Root(devicetree.New(t, `sys/aer: Receiver Error 2\nBad TLP 0\nTOTAL_ERR_COR 12\n`).Host().Sysfs)
	for file, want := range map[string]string{"aer#Receiver Error": "2", "aer#Bad TLP": "0", "aer#TOTAL_ERR_COR": "12"} {
		if got, err := o.Text(file); got != want || err != nil {
			t.Errorf("%s: %q, %v", file, got, err)
		}
		if has, err := o.Has(file); !has || err != nil {
			t.Errorf("%s: %v, %v", file, has, err)
		}
	}
	for _, file := range []string{"aer#TOTAL_ERR", "aer#TLP", "aer#", "missing#TOTAL_ERR_COR"} {
		if got, err := o.Text(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", file, got, err)
		}
		if has, err := o.Has(file); has || err != nil {
			t.Errorf("%s: %v, %v", file, has, err)
		}
	}
}

// Any tree is read without a panic, and what is found is below the roots.
func FuzzFind(f *testing.F) {
	f.Add(machine)
	f.Add("sys/class/misc/x -> x\nsys/bus/pci/devices/0000:00:00.0 -> ../../..\nsys/bus/usb/devices/1-1/idVendor/")
	f.Fuzz(func(t *testing.T, text string) {
		tree := devicetree.Tree{Root: sysroot.TempDir(t)}
		if tree.Write(text) != nil {
			return // no tree
		}
		for _, s := range []match.Selector{
			{Class: "misc"}, {Class: "tty"}, {Paths: []string{"/dev/*"}}, {Paths: []string{"/sys/devices/*/*"}},
			{PCI: &match.PCI{Vendors: []string{"8086"}, Classes: []string{"030000"}, Subsystems: []string{"8086:4905"}}}, {USB: &match.USB{Serials: []string{"*"}}},
		} {
			found, _ := match.Finder{Host: tree.Host(), Node: devicetree.Node}.Find(&s)
			for _, o := range found {
				if strings.HasPrefix(o.Dir, "..") || o.Node != "" && !strings.HasPrefix(o.Node, "/dev/") {
					t.Errorf("%+v", o)
				}
				_, _ = o.Port()
				_, _ = o.Names("*")
				o.NUMANode()
				if fn, err := o.Function(); err == nil {
					if g, err := fn.IOMMUGroup(); err == nil {
						_, _ = g.InUse()
					}
				}
			}
		}
	})
}

// Two wrong sources for each rule are refused, with the field and what would be right.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source match.Selector
		want   string
	}{
		{match.Selector{}, "m: it selects nothing: give one of paths"},
		{match.Selector{Names: []string{"x"}}, "m: it selects nothing: give one of paths"},
		{match.Selector{Class: "drm", PCI: &match.PCI{Vendors: []string{"8086"}}}, "m: it has class and pci: give one"},
		{match.Selector{Paths: []string{"/dev/x"}, USB: &match.USB{}}, "m: it has paths and usb: give one"},
		{match.Selector{Paths: []string{}}, "m.paths: it is empty"},
		{match.Selector{Paths: []string{"/etc/x"}}, `m.paths[0]: "/etc/x" must be below /dev or /sys`},
		{match.Selector{Paths: []string{"dev/x"}}, `m.paths[0]: "dev/x" must be below /dev or /sys`},
		{match.Selector{Paths: []string{"/dev/[0-"}}, `m.paths[0]: "/dev/[0-" is no pattern`},
		{match.Selector{Paths: []string{"/dev/x\\"}}, `m.paths[0]: "/dev/x\\" is no pattern`},
		{match.Selector{Paths: []string{"/dev/../etc"}}, "must be without . or .."},
		{match.Selector{Paths: []string{"/dev/x/"}}, "without / at its end"},
		{match.Selector{Paths: []string{"/dev/*"}}, "matches everything there"},
		{match.Selector{Paths: []string{"/sys/?*"}}, "matches everything there"},
		{match.Selector{Paths: []string{"/dev/x", "/dev/x"}}, `m.paths[1]: "/dev/x" is there twice`},
		{match.Selector{Class: "drm", Names: []string{"a", "a"}}, `m.names[1]: "a" is there twice`},
		{match.Selector{Class: "a/b"}, `m.class: "a/b" is no name`},
		{match.Selector{Class: "a b"}, `m.class: "a b" is no name`},
		{match.Selector{Class: ".."}, `m.class: ".." is no name`},
		{match.Selector{Class: "block"}, "m.class: no container gets a block device"},
		{match.Selector{Paths: []string{"/dev/x"}, Names: []string{"a"}}, "m.names: it is for the members of a class"},
		{match.Selector{USB: &match.USB{}, Names: []string{"a"}}, "m.names: it is for the members of a class"},
		{match.Selector{Class: "drm", Names: []string{"a/b"}}, `m.names[0]: "a/b" is no pattern for a name`},
		{match.Selector{Class: "drm", Names: []string{""}}, `m.names[0]: "" is no pattern for a name`},
		{match.Selector{PCI: &match.PCI{}}, "m.pci: it would select every function"},
		{match.Selector{PCI: &match.PCI{Vendors: []string{}}}, "m.pci: it would select every function"},
		{match.Selector{PCI: &match.PCI{Vendors: []string{"0x8086"}}}, "m.pci.vendors[0]: \"0x8086\" must be four hexadecimal digits"},
		{match.Selector{PCI: &match.PCI{Vendors: []string{"intel"}}}, "m.pci.vendors[0]: \"intel\" must be four hexadecimal digits"},
		{match.Selector{PCI: &match.PCI{Devices: []string{"8086:"}}}, "m.pci.devices[0]"},
		{match.Selector{PCI: &match.PCI{Devices: []string{"8086:56c"}}}, "m.pci.devices[0]"},
		{match.Selector{PCI: &match.PCI{Classes: []string{"3"}}}, "m.pci.classes[0]"},
		{match.Selector{PCI: &match.PCI{Classes: []string{"03000000"}}}, "m.pci.classes[0]"},
		{match.Selector{PCI: &match.PCI{Subsystems: []string{"4905"}}}, "m.pci.subsystems[0]"},
		{match.Selector{PCI: &match.PCI{Subsystems: []string{"8086:4905:1"}}}, "m.pci.subsystems[0]"},
		{match.Selector{PCI: &match.PCI{Drivers: []string{"a/b"}}}, "m.pci.drivers[0]"},
		{match.Selector{PCI: &match.PCI{Drivers: []string{"xe", ".. "}}}, "m.pci.drivers[1]"},
		{match.Selector{USB: &match.USB{Vendors: []string{"403"}}}, "m.usb.vendors[0]"},
		{match.Selector{USB: &match.USB{Vendors: []string{"ftdi"}}}, "m.usb.vendors[0]"},
		{match.Selector{USB: &match.USB{Products: []string{"0403/6001"}}}, "m.usb.products[0]"},
		{match.Selector{USB: &match.USB{Products: []string{""}}}, "m.usb.products[0]"},
		{match.Selector{USB: &match.USB{Serials: []string{"[a"}}}, "m.usb.serials[0]"},
		{match.Selector{USB: &match.USB{Serials: []string{""}}}, "m.usb.serials[0]"},
	} {
		var errs sdk.FieldErrors
		c.source.Check("m", &errs)
		if len(errs) == 0 || !strings.Contains(errs.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.source, errs, c.want)
		}
	}
	for _, s := range []match.Selector{
		{Paths: []string{"/dev/tenstorrent/[0-9]*", "/dev/tt*"}}, {Class: "drm", Names: []string{"card[0-9]*"}},
		{PCI: &match.PCI{Vendors: []string{"10DE"}, Devices: []string{"10de:1db6", "1DB6"}, Classes: []string{"03", "0302", "030200"}, Drivers: []string{"vfio-pci", ""}}}, {USB: &match.USB{}},
	} {
		var errs sdk.FieldErrors
		if s.Check("m", &errs); len(errs) > 0 {
			t.Errorf("%+v: %v", s, errs)
		}
	}
}
