package fpgatree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

func write(t *testing.T, m Machine) *Tree {
	t.Helper()
	tree, err := Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(b), "\x00\n")
}

// list is every path of the tree, with what links point to.
func list(t *testing.T, tree *Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tree.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(tree.Root, path)
		all[name] = e.Type().String()
		if e.Type()&fs.ModeSymlink != 0 {
			all[name], err = os.Readlink(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func address(t *testing.T, s string) pci.Address {
	t.Helper()
	at, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A tree has the files and links that readers go by.
func TestLayout(t *testing.T) {
	tree := write(t, NewMixed())
	for name, want := range map[string]string{
		"sys/bus/pci/devices/0000:05:00.0/device":                                           "0x0b2b",
		"sys/bus/pci/devices/0000:05:00.0/class":                                            "0x120000",
		"sys/class/fpga_region/region0/dfl-port.0/afu_id":                                   "f7df405cbd7acf7222f144b0b93acd18",
		"sys/class/fpga_region/region0/dfl-fme.0/ports_num":                                 "1",
		"sys/class/fpga_region/region1/compat_id":                                           "9346116da52d5ca8b06aa9a389ef7c8d",
		"sys/class/fpga_region/region2/dfl-port.1/afu_id":                                   "9AEFFE5F84570612C000C9660D824272",
		"sys/class/fpga_region/region4/compat_id":                                           "",
		"sys/class/fpga/intel-fpga-dev.0/intel-fpga-fme.0/pr/interface_id":                  "F64E598BEA11517FA28E7BC65D885104",
		"sys/class/fpga/intel-fpga-dev.0/intel-fpga-port.0/dev":                             "244:0",
		"sys/bus/pci/devices/0000:86:00.3/vendor":                                           "0x1af4",
		"sys/bus/pci/devices/0001:05:00.1/physfn/sriov_numvfs":                              "1",
		"sys/bus/pci/devices/0001:05:00.0/virtfn0/device":                                   "0x0b2c",
		"sys/bus/pci/devices/10000:e1:00.1/fpga_region/region16/dfl-port.5/id":              "0",
		"sys/bus/pci/devices/10000:e1:00.0/fpga_region/region12/dfl-port.4/id":              "2",
		"sys/class/hwmon/hwmon1/temp1_crit_alarm":                                           "0",
		"sys/class/fpga_region/region2/dfl-fme.1/dfl-fme-mgr.1/fpga_manager/fpga1/state":    "unknown",
		"sys/class/fpga_region/region2/dfl-fme.1/errors/fme_errors":                         "0x0",
		"sys/class/fpga_region/region2/dfl-fme.1/driver/driver/subsystem/errors/fme_errors": "0x0",
	} {
		if got := read(t, tree.Root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	all := list(t, tree)
	for name, want := range map[string]string{
		"sys/class/fpga_region/region0":                                                "../../devices/pci0000:04/0000:04:01.1/0000:05:00.0/fpga_region/region0",
		"sys/bus/pci/devices/0001:05:00.1":                                             "../../../devices/pci0001:04/0001:04:01.1/0001:05:00.1",
		"sys/bus/pci/devices/0000:05:00.0/driver":                                      "",
		"sys/devices/pci0000:04/0000:04:01.1/0000:05:00.0/fpga_region/region0/region0": "region0",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	if got := len(read(t, tree.Root, "sys/class/fpga/intel-fpga-dev.0/intel-fpga-port.0/id")); got != 1 {
		t.Errorf("the port's number has %d bytes", got)
	}
	if s, err := os.Stat(filepath.Join(tree.Root, "sys/class/fpga/intel-fpga-dev.0/intel-fpga-port.0/id")); err != nil || s.Size() != 4096 {
		t.Errorf("the file is not padded: %v, %v", s, err)
	}
	for _, node := range []string{"dfl-fme.0", "dfl-port.0", "intel-fpga-port.0", "intel-fpga-fme.0", "dfl-port.6"} {
		if all["dev/"+node] == "" {
			t.Errorf("there is no node %s", node)
		}
	}
	// An OFS card says no AFU, and three ways of no ID.
	if _, err := os.Stat(filepath.Join(tree.Root, "sys/bus/pci/devices/0000:86:00.0/fpga_region/region4/dfl-port.2/afu_id")); err == nil {
		t.Error("an N6000 has an AFU ID")
	}
}

// What is unplugged leaves nothing; plugged in again it is what it was.
func TestUnplug(t *testing.T) {
	tree := write(t, NewMixed())
	before := list(t, tree)
	states := map[string]bool{}
	tree.Halfway = func(state string) { states[state] = true }
	for i, c := range tree.Machine().Cards {
		if err := tree.Unplug(i); err != nil {
			t.Fatal(err)
		}
		for name := range list(t, tree) {
			if slices.ContainsFunc(c.functions(), func(at pci.Address) bool { return strings.HasSuffix(name, at.String()) }) {
				t.Errorf("%s is left", name)
			}
		}
		if err := tree.Unplug(i); err == nil {
			t.Errorf("card %d was unplugged twice", i)
		}
		if err := tree.ReloadDriver(i); err == nil {
			t.Errorf("card %d got a driver while it is not there", i)
		}
		if err := tree.ReloadDriver(slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5}, func(n int) bool { return n == i })...); err != nil {
			t.Fatal(err)
		}
		if err := tree.Plug(i); err != nil {
			t.Fatal(err)
		}
		if err := tree.Plug(i); err == nil {
			t.Errorf("card %d was plugged in twice", i)
		}
	}
	if err := tree.ReloadDriver(0, 1, 2, 3, 4, 5); err != nil {
		t.Fatal(err)
	}
	if after := list(t, tree); !maps.Equal(before, after) {
		t.Errorf("%d paths before, %d after, or other links", len(before), len(after))
	}
	want := []string{"dangling links", "function gone", "no driver", "no driver of the card", "no nodes", "no ports", "region only"}
	if got := slices.Sorted(maps.Keys(states)); !slices.Equal(got, want) {
		t.Errorf("states were %q, want %q", got, want)
	}
}

// The driver, loaded again in another order, gives other numbers to the same cards.
func TestReloadDriver(t *testing.T) {
	tree := write(t, NewMany(3))
	at := address(t, "0000:11:00.0")
	before, err := tree.Find(at, "port0")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.ReloadDriver(2, 0); err != nil {
		t.Fatal(err)
	}
	after, err := tree.Find(at, "port0")
	if err != nil || filepath.Base(before) != "dfl-port.0" || filepath.Base(after) != "dfl-port.1" {
		t.Errorf("the port was %s and is %s: %v", before, after, err)
	}
	if _, err := tree.Find(address(t, "0000:21:00.0"), "fme"); err == nil {
		t.Error("the card that was not found has the driver")
	}
	if entries, _ := os.ReadDir(filepath.Join(tree.Root, "sys/class/hwmon")); len(entries) != 6 {
		t.Errorf("%d sensors, want those of 2 cards", len(entries))
	}
	if err := tree.ReloadDriver(0, 0); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a card was found twice: %v", err)
	}
}

// Values change in the place that readers read, in one step.
func TestChanges(t *testing.T) {
	tree := write(t, NewMixed())
	n3000, vf := address(t, "0000:3b:00.0"), address(t, "10000:e1:00.2")
	for name, err := range map[string]error{
		"program": tree.Program(vf, 1, NoAFU), "register": tree.SetRegister(n3000, "fme/catfatal_errors", 0x800),
		"port register": tree.SetRegister(vf, "port1/errors", 5), "alarm": tree.SetSensor(address(t, "10000:e1:00.0"), "dfl_fme_thermal", "temp1_crit_alarm", 1),
		"file": tree.SetFile("sys/class/fpga_region/region0/dfl-port.0/power_state", "0x6\n"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"10000:e1:00.2/fpga_region/region17/dfl-port.6/afu_id":              NoAFU,
		"0000:3b:00.0/fpga_region/region2/dfl-fme.1/errors/catfatal_errors": "0x800",
		"10000:e1:00.2/fpga_region/region17/dfl-port.6/errors/errors":       "0x5",
		"0000:05:00.0/fpga_region/region0/dfl-port.0/power_state":           "0x6",
	} {
		if got := read(t, tree.Root, "sys/bus/pci/devices", name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	alarms, _ := filepath.Glob(filepath.Join(tree.Root, "sys/class/hwmon/*/temp1_crit_alarm"))
	raised := 0
	for _, alarm := range alarms {
		to, err := filepath.EvalSymlinks(alarm)
		if err != nil {
			t.Fatal(err)
		}
		if read(t, alarm) == "1" && strings.Contains(to, "/10000:e1:00.0/") {
			raised++
		}
	}
	if len(alarms) != 3 || raised != 1 {
		t.Errorf("%d of %d alarms are raised, want 1 of 3", raised, len(alarms))
	}
	for name, err := range map[string]error{
		"no such port": tree.Program(n3000, 1, NoAFU), "no such register": tree.SetRegister(n3000, "fme/errors", 1),
		"no such sensor": tree.SetSensor(n3000, "coretemp", "temp1_input", 1), "no AFU": tree.Program(address(t, "0000:86:00.0"), 0, NoAFU),
		"no such card": tree.Unplug(6), "no name": tree.SetRegister(n3000, "fme", 1), "no file": tree.SetSensor(n3000, "dfl_fme_thermal", "temp9_input", 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestImpossibleMachines(t *testing.T) {
	for name, change := range map[string]func(*Card){
		"bus 0": func(c *Card) { c.Address.Bus = 0 }, "function": func(c *Card) { c.Address.Function = 1 },
		"VFs": func(c *Card) { c.VFs = 2 }, "no room": func(c *Card) { c.VFs, c.Ports = 8, 8 }, "model": func(c *Card) { c.Model = Model{} },
	} {
		m := NewD5005()
		change(&m.Cards[0])
		if _, err := Write(sysroot.TempDir(t), m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A capture is unpacked with its links as they are, and what it lacks is added.
func TestCaptures(t *testing.T) {
	for name, want := range map[string]struct {
		function, port, afu string
		hwmon               int
	}{
		"mock_sys_dfl_d5005_nlb0":      {"0000:05:00.0", "dfl-port.0", "f7df405cbd7acf7222f144b0b93acd18", 1},
		"mock_sys_dfl_n3000_nlb0":      {"0000:05:00.0", "dfl-port.0", "9aeffe5f84570612c000c9660d824272", 1},
		"mock_sys_dfl_n6000_sku0_nlb0": {"0000:01:00.0", "dfl-port.0", "", 2},
		"mock_sys_tmp-dcp-rc-nlb3":     {"0000:05:00.0", "intel-fpga-port.0", "d8424dc4a4a3c413f89e433683f9040b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
			tree, err := Unpack(sysroot.TempDir(t), archive)
			if err != nil {
				t.Fatal(err)
			}
			at := address(t, want.function)
			port, err := tree.Find(at, "port0")
			if err != nil || filepath.Base(port) != want.port {
				t.Fatalf("the port is %q: %v", port, err)
			}
			if want.afu != "" {
				if got := read(t, tree.Root, port, "afu_id"); got != want.afu {
					t.Errorf("the AFU is %q, want %q", got, want.afu)
				}
				if err := tree.Program(at, 0, NoAFU); err != nil || read(t, tree.Root, port, "afu_id") != NoAFU {
					t.Errorf("the AFU could not be changed: %v", err)
				}
			}
			if got := read(t, tree.Sysfs(), "bus/pci/devices", want.function, "class"); got != "0x120000" {
				t.Errorf("the class is %q", got)
			}
			if s, err := os.Stat(filepath.Join(tree.Devfs(), want.port)); err != nil || s.IsDir() {
				t.Errorf("the node is %v, %v", s, err)
			}
			if got, _ := filepath.Glob(filepath.Join(tree.Sysfs(), "class/hwmon/*/name")); len(got) != want.hwmon {
				t.Errorf("sensors are %q, want %d", got, want.hwmon)
			}
			if err := tree.Unplug(0); err == nil || !strings.Contains(err.Error(), "describe one") {
				t.Errorf("unplugged: %v", err)
			}
			if err := tree.ReloadDriver(); err == nil {
				t.Error("the driver was loaded anew")
			}
		})
	}
	if _, err := Unpack(sysroot.TempDir(t), filepath.Join(sysroot.TempDir(t), "missing.tar.gz")); err == nil || !strings.Contains(fmt.Sprint(err), "missing.tar.gz") {
		t.Errorf("a missing capture: %v", err)
	}
}

// After OpenNodes each node of Intel's drivers is a file that can be opened, and so are those of cards
// that are plugged in later.
func TestOpenNodes(t *testing.T) {
	tree := write(t, NewMixed())
	before := list(t, tree)
	for range 2 {
		if err := errors.Join(tree.OpenNodes(), tree.Unplug(0), tree.Plug(0)); err != nil {
			t.Fatal(err)
		}
	}
	after := list(t, tree)
	if len(before) != len(after) {
		t.Errorf("%d paths before, %d after", len(before), len(after))
	}
	nodes, err := filepath.Glob(filepath.Join(tree.Devfs(), "*-*.*"))
	if err != nil || len(nodes) < 10 {
		t.Fatal(nodes, err)
	}
	for _, node := range nodes {
		f, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = f.Close()
	}
}
