package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

func write(t testing.TB, m fpgatree.Machine) *fpgatree.Tree {
	t.Helper()
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// find reads a machine that does not change.
func find(t testing.TB, tree *fpgatree.Tree) Inventory {
	t.Helper()
	got, err := Read(tree.Sysfs())
	if err != nil || got.Unsettled {
		t.Fatalf("%v, unsettled %t", err, got.Unsettled)
	}
	for _, c := range got.Cards {
		_, problems := Sensors(tree.Sysfs(), c.Dir)
		got.Problems = append(got.Problems, problems...)
	}
	return got
}

func address(t testing.TB, s string) pci.Address {
	t.Helper()
	at, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// told are problems in words.
func told(problems []Problem) []string {
	all := []string{}
	for _, p := range problems {
		all = append(all, fmt.Sprintf("%s (lost %t): %v", p.Device, p.Lost, p.Err))
	}
	return all
}

// sketch is what a card is, in a line.
func sketch(c Card) string {
	line := fmt.Sprintf("%s %s %s numa=%d board=%s", c.ID, c.Family, c.Region, c.PCI.NUMANode, c.Board)
	if c.Physical != nil {
		line += " of " + c.Physical.String()
	}
	if c.Interface != "" {
		line += " if=" + c.Interface[:4]
	}
	if e := c.Engine; e != nil {
		line += fmt.Sprintf(" %s=%d:%d bits=%x meta=%x ports=%d %s", e.Node.Name, e.Node.Major, e.Node.Minor, e.BitstreamID, e.Metadata, e.Ports, e.Manager)
	}
	for _, p := range c.Ports {
		line += fmt.Sprintf("; %s %s=%d:%d %s", strings.TrimPrefix(p.ID, c.ID), p.Node.Name, p.Node.Major, p.Node.Minor, p.State)
		if p.AFU != "" {
			line += " " + p.AFU[:4]
		}
	}
	return line
}

func sketches(inventory Inventory) []string {
	var all []string
	for _, c := range inventory.Cards {
		all = append(all, sketch(c))
	}
	return all
}

// Cards of every kind on one machine: both drivers, IDs in either case and padded, a
// port that is empty, several ports, virtual functions, functions without an ID.
func TestMixed(t *testing.T) {
	got := find(t, write(t, fpgatree.NewMixed()))
	want := []string{
		"fpga-0000-05-00-0 dfl region0 numa=0 board=0000:05:00.0 if=9346 dfl-fme.0=245:0 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.0=244:0 loaded f7df",
		"fpga-0000-3b-00-0 dfl region2 numa=1 board=0000:3b:00.0 if=a5d7 dfl-fme.1=245:1 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.1=244:1 loaded 9aef",
		"fpga-0000-86-00-0 dfl region4 numa=-1 board=0000:86:00.0 if=98b4 dfl-fme.2=245:2 bits=501020222df1b7a meta=2110055 ports=1 unknown; -port-0 dfl-port.2=244:2 untold",
		"fpga-0000-86-00-1 dfl region6 numa=-1 board=0000:86:00.0",
		"fpga-0000-86-00-2 dfl region7 numa=-1 board=0000:86:00.0",
		"fpga-0000-86-00-4 dfl region8 numa=-1 board=0000:86:00.0",
		"fpga-0000-af-00-0 opae intel-fpga-dev.0 numa=0 board=0000:af:00.0 if=f64e intel-fpga-fme.0=245:0 bits=113000200000177 meta=1809211 ports=1 unknown; -port-0 intel-fpga-port.0=244:0 loaded d842",
		"fpga-0001-05-00-0 dfl region9 numa=0 board=0001:05:00.0 if=9346 dfl-fme.3=245:3 bits=202000200000237 meta=1910174 ports=1 unknown",
		"fpga-0001-05-00-1 dfl region11 numa=0 board=0001:05:00.0 of 0001:05:00.0 if=9346; -port-0 dfl-port.3=244:3 unloaded",
		"fpga-10000-e1-00-0 dfl region12 numa=0 board=10000:e1:00.0 if=a5d7 dfl-fme.4=245:4 bits=202000200000237 meta=1910174 ports=3 unknown; -port-2 dfl-port.4=244:4 loaded 9aef",
		"fpga-10000-e1-00-1 dfl region16 numa=0 board=10000:e1:00.0 of 10000:e1:00.0 if=a5d7; -port-0 dfl-port.5=244:5 loaded 9aef",
		"fpga-10000-e1-00-2 dfl region17 numa=0 board=10000:e1:00.0 of 10000:e1:00.0 if=a5d7; -port-1 dfl-port.6=244:6 loaded 9aef",
	}
	if diff := cmp.Diff(want, sketches(got)); diff != "" || len(got.Problems) > 0 {
		t.Errorf("problems %q; cards differ (-want +got):\n%s", told(got.Problems), diff)
	}
	for i, want := range map[int]string{
		0: "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d", 3: "fpga.intel.com/region-8086-bcce-1770-f1",
		9: "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca",
	} {
		if name := got.Cards[i].RegionName(); name != want {
			t.Errorf("%s: region %q, want %q", got.Cards[i].ID, name, want)
		}
	}
	for i, want := range map[int]string{0: "dfl-fme.0", 3: "", 7: "dfl-fme.3", 8: "dfl-fme.3", 11: "dfl-fme.4"} {
		name := ""
		if e := got.EngineOf(got.Cards[i]); e != nil {
			name = e.Node.Name
		}
		if name != want {
			t.Errorf("the engine of %s is %q, want %q", got.Cards[i].ID, name, want)
		}
	}
	name, err := got.Cards[10].AFName(got.Cards[10].Ports[0])
	if want := "fpga.intel.com/af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI"; name != want || err != nil {
		t.Errorf("a port of a virtual function is %q, %v; want %q", name, err, want)
	}
	if name, err := got.Cards[2].AFName(got.Cards[2].Ports[0]); err == nil || !strings.Contains(err.Error(), "no AFU ID") {
		t.Errorf("a port without an ID is %q, %v", name, err)
	}
}

// Captures of real cards, with all that is odd in them.
func TestCaptures(t *testing.T) {
	for name, want := range map[string][]string{
		"mock_sys_dfl_d5005_nlb0": {"fpga-0000-05-00-0 dfl region0 numa=-1 board=0000:05:00.0 if=9346 dfl-fme.0=245:0 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.0=244:0 loaded f7df"},
		"mock_sys_dfl_n3000_nlb0": {"fpga-0000-05-00-0 dfl region0 numa=-1 board=0000:05:00.0 if=a5d7 dfl-fme.0=245:0 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.0=244:0 loaded 9aef"},
		"mock_sys_dfl_n6000_sku0_nlb0": {
			"fpga-0000-01-00-0 dfl region0 numa=-1 board=0000:01:00.0 if=98b4 dfl-fme.0=240:0 bits=501020222df1b7a meta=2110055 ports=1 unknown; -port-0 dfl-port.0=239:0 untold",
			"fpga-0000-01-00-1 dfl region1 numa=-1 board=0000:01:00.0",
			"fpga-0000-01-00-2 dfl region2 numa=-1 board=0000:01:00.0",
			"fpga-0000-01-00-4 dfl region3 numa=-1 board=0000:01:00.0",
		},
		"mock_sys_tmp-dcp-rc-nlb3": {"fpga-0000-05-00-0 opae intel-fpga-dev.0 numa=-1 board=0000:05:00.0 if=f64e intel-fpga-fme.0=245:0 bits=113000200000177 meta=1809211 ports=1 unknown; -port-0 intel-fpga-port.0=244:0 loaded d842"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
			tree, err := fpgatree.Unpack(sysroot.TempDir(t), archive)
			if err != nil {
				t.Fatal(err)
			}
			got := find(t, tree)
			if diff := cmp.Diff(want, sketches(got)); diff != "" || len(got.Problems) > 0 {
				t.Errorf("problems %q; cards differ (-want +got):\n%s", told(got.Problems), diff)
			}
			for _, c := range got.Cards {
				for _, p := range c.Ports {
					if told := p.State != Untold; told != (len(p.Registers) == 3) { // the N6000 has none
						t.Errorf("registers of the port are %v", p.Registers)
					}
				}
				if c.Engine != nil && len(c.Engine.Registers) < 6 {
					t.Errorf("registers of the engine are %v", c.Engine.Registers)
				}
				if sensors, _ := Sensors(tree.Sysfs(), c.Dir); c.Engine != nil && len(sensors) == 0 {
					t.Errorf("%s has no sensors", c.ID)
				}
			}
		})
	}
}

// What the engine, its sensors and its controller say.
func TestHealth(t *testing.T) {
	tree := write(t, fpgatree.NewN3000())
	at := address(t, "0000:05:00.0")
	port, err := tree.Find(at, "port0")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tree.SetRegister(at, "fme/catfatal_errors", 0x800), tree.SetRegister(at, "fme/pcie1_errors", 1<<63),
		tree.SetRegister(at, "port0/errors", 0x12), tree.SetFile(port+"/power_state", "0x6\n"),
		tree.SetFile(port+"/errors/first_malformed_req", "0x00000000000000010000000000000002\n"),
		tree.SetSensor(at, "dfl_fme_thermal", "temp1_crit_alarm", 1),
		tree.SetFile("sys/class/fpga_region/region0/bmc_version", "of nobody\n"),
		tree.SetFile("sys/class/fpga_region/region0/dfl-fme.0/dfl-fme-mgr.0/fpga_manager/fpga0/state", "write error\n")); err != nil {
		t.Fatal(err)
	}
	got := find(t, tree)
	if len(got.Cards) != 1 || len(got.Problems) > 0 {
		t.Fatalf("%d cards, problems %q", len(got.Cards), told(got.Problems))
	}
	c := got.Cards[0]
	raised := map[string]string{}
	for _, r := range append(c.Engine.Registers, c.Ports[0].Registers...) {
		if b, err := os.ReadFile(filepath.Join(tree.Sysfs(), r.File)); err != nil || len(b) == 0 {
			t.Errorf("%s cannot be found again: %v", r.Name, err)
		}
		if r.Raised() {
			raised[r.Name] = fmt.Sprintf("%x %x", r.High, r.Low)
		}
	}
	if diff := cmp.Diff(map[string]string{"catfatal_errors": "0 800", "pcie1_errors": "0 8000000000000000", "errors": "0 12", "first_malformed_req": "1 2"}, raised); diff != "" {
		t.Errorf("raised registers (-want +got):\n%s", diff)
	}
	if c.Ports[0].PowerState != 6 || c.Engine.Manager != "write error" {
		t.Errorf("power state is %d, the manager's %q", c.Ports[0].PowerState, c.Engine.Manager)
	}
	sensors, _ := Sensors(tree.Sysfs(), c.Dir)
	want := []Sensor{
		{Chip: "dfl_fme_power", Name: "power1", Quantity: Power, Value: 31, Known: true, Max: 60, Critical: 70},
		{Chip: "dfl_fme_thermal", Name: "temp1", Quantity: Temperature, Value: 47, Known: true, Max: 90, Critical: 93, Alarms: []string{"temp1_crit_alarm"}},
		{Chip: "n3000bmc_hwmon", Name: "in0", Label: "FPGA Core Voltage", Quantity: Voltage, Value: 0.88, Known: true},
		{Chip: "n3000bmc_hwmon", Name: "power1", Label: "Board Power", Quantity: Power, Value: 64.709, Known: true},
		{Chip: "n3000bmc_hwmon", Name: "temp1", Label: "Board Temperature", Quantity: Temperature, Value: 35, Known: true},
		{Chip: "n3000bmc_hwmon", Name: "temp2", Label: "FPGA Die Temperature", Quantity: Temperature, Value: 50, Known: true, Max: 90, Critical: 100},
		{Chip: "n3000bmc_hwmon", Name: "temp3", Label: "QSFP0 Temperature", Quantity: Temperature},
	}
	if diff := cmp.Diff(want, sensors); diff != "" {
		t.Errorf("sensors (-want +got):\n%s", diff)
	}
	versions := map[string]string{"bmc_version": "0x44020006", "bmcfw_version": "0x44020014", "nios_fw_version": "3.0.1"}
	if diff := cmp.Diff(versions, c.Engine.Firmware); diff != "" {
		t.Errorf("firmware (-want +got):\n%s", diff)
	}
	if err := errors.Join(tree.SetRegister(at, "fme/catfatal_errors", 0), tree.SetSensor(at, "dfl_fme_thermal", "temp1_crit_alarm", 0),
		tree.Program(at, 0, "D8424DC4A4A3C413F89E433683F9040B \x00\x00")); err != nil {
		t.Fatal(err)
	}
	c = find(t, tree).Cards[0]
	if sensors, _ = Sensors(tree.Sysfs(), c.Dir); c.Engine.Registers[0].Raised() || len(sensors[1].Alarms) > 0 || c.Ports[0].AFU != "d8424dc4a4a3c413f89e433683f9040b" {
		t.Errorf("after all was cleared and programmed: %v, %v, %s", c.Engine.Registers[0], sensors[1].Alarms, c.Ports[0].AFU)
	}
}

// The older driver has a temperature with thresholds, and registers in other places.
func TestOlderDriver(t *testing.T) {
	tree := write(t, fpgatree.NewArria10())
	at := address(t, "0000:05:00.0")
	fme, err := tree.Find(at, "fme")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tree.SetFile(fme+"/thermal_mgmt/threshold2_reached", "1\n"), tree.SetRegister(at, "fme/fme-errors/errors", 7)); err != nil {
		t.Fatal(err)
	}
	c := find(t, tree).Cards[0]
	want := []Sensor{{Chip: "thermal_mgmt", Name: "temp1", Quantity: Temperature, Value: 38, Known: true, Alarms: []string{"threshold2_reached"}}}
	sensors, _ := Sensors(tree.Sysfs(), c.Dir)
	if diff := cmp.Diff(want, sensors); diff != "" {
		t.Errorf("sensors (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(c.Engine.Registers, func(r Register) bool { return r.Name == "fme_errors" })
	if i < 0 || c.Engine.Registers[i].Low != 7 || !strings.HasSuffix(c.Engine.Registers[i].File, "/errors/fme-errors/errors") {
		t.Errorf("registers are %v", c.Engine.Registers)
	}
}

// Without a driver there is nothing, and that can be told from an empty machine.
func TestNoDriver(t *testing.T) {
	for _, class := range []string{"", "class/hwmon"} {
		sys := t.TempDir()
		if err := os.MkdirAll(filepath.Join(sys, class), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(sys); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no FPGA driver") {
			t.Errorf("with %q only: %v", class, err)
		}
	}
	tree := write(t, fpgatree.NewMixed())
	if err := tree.ReloadDriver(); err != nil {
		t.Fatal(err)
	}
	if got := find(t, tree); len(got.Cards) > 0 || len(got.Problems) > 0 {
		t.Errorf("a driver without cards: %v, %q", got.Cards, told(got.Problems))
	}
}

// A port in reset keeps its place; a driver that lets go of a card costs that card.
func TestAnswers(t *testing.T) {
	tree := write(t, fpgatree.NewMixed())
	refuse := func(part string, err error) func(string, int) ([]byte, error) {
		return func(path string, limit int) ([]byte, error) {
			if strings.Contains(path, "/0000:3b:00.0/") && strings.HasSuffix(path, part) {
				return nil, &fs.PathError{Op: "read", Path: path, Err: err}
			}
			return sysfs.Read(path, limit)
		}
	}
	for name, c := range map[string]struct {
		file  string
		err   error
		cards int
		state State
		lost  string
	}{
		"port in reset":           {"afu_id", unix.EBUSY, 12, Busy, ""},
		"no AFU ID":               {"afu_id", unix.ENOENT, 12, Untold, ""},
		"port lets go":            {"afu_id", unix.ENODEV, 12, "", "0000:3b:00.0 dfl-port.1"},
		"no compatible ID":        {"compat_id", unix.ENOENT, 12, Loaded, ""},
		"engine lets go":          {"dfl-fme.1/dev", unix.ENODEV, 11, "", "0000:3b:00.0"},
		"interface not to be had": {"compat_id", unix.EIO, 11, "", "0000:3b:00.0"},
		"sensor without a value":  {"temp1_input", unix.ENODATA, 12, Loaded, ""},
		"register not to be had":  {"catfatal_errors", unix.EIO, 12, Loaded, ""},
	} {
		got, err := read(reader{root: tree.Sysfs(), file: refuse(c.file, c.err)}, func() {})
		if err != nil || len(got.Cards) != c.cards {
			t.Errorf("%s: %d cards, want %d; %v", name, len(got.Cards), c.cards, err)
		}
		var state State
		for _, card := range got.Cards {
			if card.ID == "fpga-0000-3b-00-0" && len(card.Ports) == 1 {
				state = card.Ports[0].State
			}
		}
		lost := ""
		for _, p := range got.Problems {
			if p.Lost {
				lost += p.Device
			}
		}
		if state != c.state || lost != c.lost {
			t.Errorf("%s: the port is %q, want %q; lost %q, want %q; problems %q", name, state, c.state, lost, c.lost, told(got.Problems))
		}
	}
}

// Ports come by their number, whatever the driver's is.
func TestManyPorts(t *testing.T) {
	m := fpgatree.NewD5005()
	m.Cards[0].Ports = 12
	got := find(t, write(t, m))
	for i, p := range got.Cards[0].Ports {
		if p.Number != i || p.ID != fmt.Sprintf("fpga-0000-05-00-0-port-%d", i) {
			t.Errorf("port %d is %s, number %d", i, p.ID, p.Number)
		}
	}
	if n := len(got.Cards[0].Ports); n != 12 || got.Cards[0].Engine.Ports != 12 || len(got.Problems) > 0 {
		t.Errorf("%d ports; problems %q", n, told(got.Problems))
	}
}
