package fpgatree

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FPGAs without DFL have the files and links that readers go by.
func TestPlainLayout(t *testing.T) {
	tree := write(t, NewPlainMixed())
	manager, err := tree.Manager(0)
	if err != nil {
		t.Fatal(err)
	}
	link := "sys/class/fpga_manager/" + filepath.Base(manager)
	for name, want := range map[string]string{
		link + "/name":                      "Xilinx ZynqMP FPGA Manager",
		link + "/state":                     "operating",
		link + "/firmware":                  "",
		link + "/flags":                     "0",
		"sys/class/fpga_manager/fpga0/name": "DFL FME FPGA Manager",
		"sys/firmware/devicetree/base/fpga-full/fpga-mgr":                           "\x01",
		link + "/of_node/phandle":                                                   "\x01",
		"sys/devices/platform/fpga-full/of_node/name":                               "fpga-full",
		"sys/devices/platform/fpga-full/a0000000.dma/uio/uio0/dev":                  "242:0",
		"sys/bus/pci/devices/0000:5e:00.0/vendor":                                   "0x1172",
		"sys/devices/platform/soc/ffd03000.fpga-mgr/of_node/phandle":                "\x03",
		"sys/devices/platform/soc/ff0f0000.spi/spi_master/spi1/spi1.1/of_node/name": "fpga-mgr@1",
		"sys/devices/platform/soc/soc:base_fpga_region/of_node/pr1/name":            "pr1",
	} {
		if got := read(t, tree.Root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if chips, err := filepath.Glob(filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:5e:00.0/hwmon/hwmon*")); err != nil || len(chips) != 1 || read(t, chips[0], "temp1_input") != "41500" {
		t.Errorf("the sensors are %v, %v", chips, err)
	}
	if ids, err := filepath.Glob(filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:5e:00.0/fpga_region/region*/compat_id")); err != nil || len(ids) != 1 || read(t, ids[0]) != "d8424dc4a4a3c413f89e433683f9040b" {
		t.Errorf("the IDs are %v, %v", ids, err)
	}
	all := list(t, tree)
	if n := filepath.Base(manager); all["dev/"+n] == "" || all["sys/class/misc/"+n] == "" {
		t.Errorf("there is no node %s", n)
	}
	for name, to := range all {
		if strings.HasPrefix(to, ".") {
			if _, err := os.Stat(filepath.Join(tree.Root, name)); err != nil && filepath.Base(name) != "driver" {
				t.Errorf("%s leads to nothing: %s", name, to)
			}
		}
	}
}

// Drivers that are loaded anew leave nothing behind, and number in their order.
func TestReloadPlain(t *testing.T) {
	tree := write(t, NewPlainMixed())
	before := list(t, tree)
	states := map[string]bool{}
	tree.Halfway = func(state string) { states[state] = true }
	if err := tree.ReloadPlain(); err != nil {
		t.Fatal(err)
	}
	for name := range list(t, tree) {
		if strings.Contains(name, "platform") && (strings.Contains(name, "/fpga_") || strings.Contains(name, "uio")) {
			t.Errorf("%s is left", name)
		}
	}
	if err := tree.SetManager(0, "state", "unknown\n"); err == nil {
		t.Error("a manager that is not there was set")
	}
	if err := tree.ReloadPlain(0, 1, 2, 3, 4, 5); err != nil {
		t.Fatal(err)
	}
	if after := list(t, tree); !maps.Equal(before, after) {
		t.Errorf("%d paths before, %d after, or other links", len(before), len(after))
	}
	if err := tree.ReloadPlain(5, 4, 3, 2, 1, 0); err != nil {
		t.Fatal(err)
	}
	if after := list(t, tree); maps.Equal(before, after) {
		t.Error("the numbers are the same in another order")
	}
	for _, order := range [][]int{{6}, {-1}, {0, 0}} {
		if err := tree.ReloadPlain(order...); err == nil {
			t.Errorf("the order %v was taken", order)
		}
	}
	for _, want := range []string{"manager only", "region only", "no nodes", "dangling links", "no driver"} {
		if !states[want] {
			t.Errorf("the state %q was not shown", want)
		}
	}
}

// Regions come and go, the manager stays.
func TestPlainRegions(t *testing.T) {
	tree := write(t, NewZynqMP())
	before := list(t, tree)
	regions := tree.Machine().Plain[0].Regions
	if err := tree.SetPlainRegions(0); err != nil {
		t.Fatal(err)
	}
	if links, _ := os.ReadDir(filepath.Join(tree.Root, "sys/class/fpga_region")); len(links) > 0 {
		t.Errorf("%v is left", links)
	}
	if err := tree.SetPlainRegions(0, regions...); err != nil {
		t.Fatal(err)
	}
	if after := list(t, tree); !maps.Equal(before, after) {
		t.Error("the tree is another")
	}
	if err := tree.SetPlainRegions(1); err == nil {
		t.Error("an FPGA that is not there was changed")
	}
}

// The kernel takes a file by its name through all steps, or says at which it failed.
func TestKernel(t *testing.T) {
	tree := write(t, NewZynqMP())
	dir, err := tree.Manager(0)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	k := &Kernel{Tree: tree, Firmware: t.TempDir(), During: func(step string) { steps = append(steps, step) }}
	file := func(name string) string { return filepath.Join(tree.Sysfs(), "class/fpga_manager/fpga0", name) }
	if err := os.WriteFile(filepath.Join(k.Firmware, "a.bin"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Write(file("flags"), "1f\n"), k.Write(file("firmware"), "a.bin\n")); err != nil {
		t.Fatal(err)
	}
	if k.Flags != 0x1f || len(k.Programmed) != 1 || string(k.Programmed[0]) != "content" || read(t, tree.Root, dir, "state") != "operating" {
		t.Errorf("%+v", k)
	}
	if want := []string{"firmware request", "parse header", "write init", "write", "write complete"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q", steps)
	}
	k.Fail, k.Status = "write", "reconfig CRC error\n"
	if err := k.Write(file("firmware"), "a.bin"); !errors.Is(err, unix.EINVAL) || read(t, tree.Root, dir, "state") != "write error" || read(t, tree.Root, dir, "status") != "reconfig CRC error" {
		t.Errorf("a failure: %v", err)
	}
	for name, want := range map[string]error{"b.bin": unix.ENOENT, strings.Repeat("a", 254): unix.E2BIG} {
		if err := k.Write(file("firmware"), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := k.Write(file("flags"), "z"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("flags that are no number: %v", err)
	}
	if err := k.Write(file("state"), "x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that cannot be written: %v", err)
	}
	if err := k.Write(file("nothing"), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
