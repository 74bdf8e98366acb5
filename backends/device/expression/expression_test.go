package expression_test

import (
	"slices"
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
	found, problems := match.Finder{Host: tree.Host()}.Find(&match.Source{PCI: &match.PCI{Devices: []string{"1018"}}})
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
