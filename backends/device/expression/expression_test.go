package expression_test

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/test/devicetree"
)

// A template of a virtual function: fields of PCI functions, functions for strings, a list.
func TestTemplate(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, `
sys/devices/pci0000:3a/0000:3b:00.0/vendor: 0x15b3
sys/devices/pci0000:3a/0000:3b:00.0/device: 0x1017
sys/devices/pci0000:3a/0000:3b:00.0/sriov_offset: 2
sys/devices/pci0000:3a/0000:3b:00.0/sriov_stride: 1
sys/devices/pci0000:3a/0000:3b:01.1/vendor: 0x15b3
sys/devices/pci0000:3a/0000:3b:01.1/device: 0x1018
sys/devices/pci0000:3a/0000:3b:01.1/uio/uio4/name: x
sys/devices/pci0000:3a/0000:3b:01.1/uio/uio5/name: x
sys/devices/pci0000:3a/0000:3b:01.1/physfn -> ../0000:3b:00.0
sys/bus/pci/devices/0000:3b:01.1 -> ../../../devices/pci0000:3a/0000:3b:01.1
`)
	found, problems := match.Finder{Host: tree.Host()}.Find(&match.Selector{PCI: &match.PCI{Devices: []string{"1018"}}})
	if len(found) != 1 {
		t.Fatalf("%v, %v", found, problems)
	}
	scope := &expression.Scope{Object: found[0], Sys: match.Root(tree.Host().Sysfs)}
	for text, want := range map[string][]string{
		"{pci.virtualIndex}": {"7"},
		`/dev/uio{pci.names("uio/uio*").map(n, n.replace("uio", ""))}`: {"/dev/uio4", "/dev/uio5"},
		`{"wq1.3".split(".")[1]}-{"A".lowerAscii()}{{}}`:               {"3-a{}"},
		`{pci.driver == "vfio-pci" ? ["vfio"] : []}`:                   nil,
	} {
		program, err := expression.CompileTemplate(text, expression.Texts)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := program.Texts(scope); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// What an expression asks for and the object does not have is absent; other failures are errors
// that name the expression. An evaluation has a bound.
func TestErrors(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, "sys/class/x/a/n: text\nsys/class/x/a/d/x: 1")
	found, _ := match.Finder{Host: tree.Host()}.Find(&match.Selector{Class: "x"})
	scope := &expression.Scope{Object: found[0], Sys: match.Root(tree.Host().Sysfs)}
	many := `[1,2,3,4,5,6,7,8,9,10]`
	for text, absent := range map[string]bool{
		`self.text("missing") == ""`: true, `self.link("missing") == ""`: true, `pci.vendor == ""`: true, `usb.serial == ""`: true, `iommu.group == ""`: true,
		`self.number("n") == 1`: false, `self.text("d") == ""`: false, `self.text("../x") == ""`: false, `self.names("[").size() == 0`: false, `name.split("")[9] == ""`: false,
		many + `.all(a, ` + many + `.all(b, ` + many + `.all(c, ` + many + `.all(d, ` + many + `.all(e, a + b + c + d + e > 0)))))`: false,
	} {
		program, err := expression.Compile(text, expression.Bool)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, err = program.True(scope)
		if err == nil || errors.Is(err, fs.ErrNotExist) != absent || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want an error, of absence: %v", text, err, absent)
		}
	}
	if is, err := must(expression.Compile(`!self.has("missing") && self.has("n") && name == "a"`, expression.Bool)).True(scope); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
}

// Values have the types that attributes have.
func TestValues(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, "sys/class/x/a/n: 0x10")
	found, _ := match.Finder{Host: tree.Host()}.Find(&match.Selector{Class: "x"})
	scope := &expression.Scope{Kind: "k", Object: found[0], Sys: match.Root(tree.Host().Sysfs)}
	for text, want := range map[string]any{
		`kind`: "k", `self.number("n") * 2`: int64(32), `1 < 2`: true, `version("1.2.3")`: expression.Version("1.2.3"),
		`["a"] + ["b"]`: []string{"a", "b"}, `[1].map(x, x + 1)`: []int64{2}, `[true]`: []bool{true}, `sys.names("class/*")`: []string{"x"},
	} {
		if got, err := must(expression.Compile(text, expression.Attribute)).Eval(scope); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, want %#v", text, got, err, want)
		}
	}
	endless := "true" // 10 ^ 6 evaluations
	for range 6 {
		endless = "[0,1,2,3,4,5,6,7,8,9].all(x, " + endless + ")"
	}
	if got, err := must(expression.Compile(endless, expression.Attribute)).Eval(scope); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("an expression without a bound: %v, %v", got, err)
	}
}

func must(p *expression.Program, err error) *expression.Program {
	if err != nil {
		panic(err)
	}
	return p
}

// A USB device has its numbers on the bus, as in the path of its node.
func TestUSB(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idVendor: 0403\nsys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idProduct: 6001\nsys/devices/pci0000:00/0000:00:14.0/usb1/1-2/busnum: 1\nsys/devices/pci0000:00/0000:00:14.0/usb1/1-2/devnum: 5\n"+
		"sys/bus/usb/devices/1-2 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-2")
	found, _ := match.Finder{Host: tree.Host()}.Find(&match.Selector{USB: &match.USB{}})
	program := must(expression.Compile(`string(usb.busNumber) + ":" + string(usb.deviceNumber) + " " + usb.port`, expression.Attribute))
	if got, err := program.Eval(&expression.Scope{Object: found[0]}); err != nil || got != "1:5 0000:00:14.0-2" {
		t.Errorf("%v, %v", got, err)
	}
}

// The numbers that the kernel counts are others in a renumbered scope, wherever an expression has them; what
// the hardware has stays.
func TestRenumbered(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, `
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idVendor: 0403
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/idProduct: 6001
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/busnum: 1
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/devnum: 5
sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/uevent: DEVNAME=bus/usb/001/005
sys/devices/pci0000:00/0000:00:14.0/iommu_group -> ../../../kernel/iommu_groups/7
sys/bus/usb/devices/1-2 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-2
`)
	found, _ := match.Finder{Host: tree.Host()}.Find(&match.Selector{USB: &match.USB{}})
	scope := &expression.Scope{Kind: "k", Object: found[0], Sys: match.Root(tree.Host().Sysfs)}
	for text, counted := range map[string]bool{
		`name`: true, `node`: true, `usb.busNumber`: true, `usb.deviceNumber`: true, `iommu.group`: true,
		`kind`: false, `usb.port`: false, `usb.vendor`: false, `pci.address`: false, `usb.text("busnum")`: false,
	} {
		program := must(expression.Compile(text, expression.Text))
		one, err := program.Eval(scope)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := program.Eval(scope.Renumbered()); err != nil || (other != one) != counted {
			t.Errorf("%s: %v and %v, %v", text, one, other, err)
		}
	}
}
