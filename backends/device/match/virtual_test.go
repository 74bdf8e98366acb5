package match_test

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/test/devicetree"
)

// A virtual function that is not there has the address that the kernel will give it, also on the next bus, and the
// files that it will have in common with its physical function; it is refused where that is unknown.
func TestPotential(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines string
		n     int
		want  string
	}{
		"first":                       {"", 0, "0000:3b:10.0 8086 154c"},
		"stride":                      {"", 3, "0000:3b:10.6 8086 154c"},
		"next bus":                    {"", 64, "0000:3c:00.0 8086 154c"},
		"short ID":                    {"PORT/sriov_vf_device: 6f", 0, "0000:3b:10.0 8086 006f"},
		"another device":              {"PORT/vendor: 0x1af4", 0, "none"},
		"a kernel without its ID":     {"- PORT/sriov_vf_device", 0, "none"},
		"another device without one":  {"PORT/vendor: 0x1af4\nPORT/sriov_offset: 0", 0, "none"},
		"no offset":                   {"PORT/sriov_offset: 0", 0, "do not show the address"},
		"no stride":                   {"PORT/sriov_stride: 0", 1, "do not show the address"},
		"beyond the buses":            {"PORT/sriov_offset: 60000", 0, "do not show the address"},
		"an offset that is no number": {"PORT/sriov_offset: x", 0, "is no number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := devicetree.New(t, strings.ReplaceAll("sys/bus/pci/devices/0000:3b:00.0 -> ../../../devices/pci0000:3a/0000:3b:00.0\n"+
				"PORT/vendor: 0x8086\nPORT/device: 0x1572\nPORT/class: 0x020000\nPORT/sriov_totalvfs: 128\nPORT/sriov_offset: 128\nPORT/sriov_stride: 2\nPORT/sriov_vf_device: 154c\n"+
				c.lines, "PORT", "sys/devices/pci0000:3a/0000:3b:00.0"))
			all, problems := match.Finder{Host: tree.Host()}.Physical()
			if len(problems) > 0 || len(all) != 1 {
				t.Fatalf("%d physical functions, %v", len(all), problems)
			}
			got := "none"
			switch o, err := all[0].Potential(&match.Selector{PCI: &match.PCI{Vendors: []string{"8086"}}}, c.n, ""); {
			case err != nil:
				got = err.Error()
			case o != nil:
				f, err := o.Function()
				if err != nil {
					t.Fatal(err)
				}
				vendor, _ := f.ID("vendor")
				device, _ := f.ID("device")
				got = f.Name + " " + vendor + " " + device
				if n, err := f.VirtualIndex(); err != nil || n != uint64(c.n) { //nolint:gosec // not negative
					t.Errorf("it is number %d, %v", n, err)
				}
				if driver, err := f.Driver(); err == nil {
					t.Errorf("its driver is %q", driver)
				}
				if has, err := f.Has("infiniband"); err != nil || has {
					t.Errorf("it has a file that its physical function does not have: %v, %v", has, err)
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
