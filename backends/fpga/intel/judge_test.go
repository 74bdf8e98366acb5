package intel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// brief returns faults in a line each, without their text.
func brief(faults []driver.Fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, fmt.Sprintf("%s %s by %s", f.Code, strings.TrimPrefix(f.Recovery.String(), "RECOVERY_"), f.Cause))
	}
	return all
}

// Verifies each register's meaning, under both drivers: code, recovery, cause, and a text that
// names register, value, place and what to do. Evidence is no fault.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		registers    map[string]uint64
		power        string
		card, region []string
		text         []string
	}{
		"nothing":      {},
		"catastrophic": {map[string]uint64{"fme/catfatal_errors": 0x800}, "", []string{"catfatal-errors REBOOT by catfatal_errors"}, nil, []string{"catfatal_errors of dfl-fme.0 (0000:05:00.0) is 0x800: ", "power-cycle the node"}},
		"nonfatal":     {map[string]uint64{"fme/nonfatal_errors": 1}, "", []string{"nonfatal-errors SELF by nonfatal_errors"}, nil, []string{"is 0x1", "cooling"}},
		"engine": {
			map[string]uint64{"fme/fme_errors": 0x20, "fme/first_error": 0x20}, "",
			[]string{"fme-errors RESET by fme_errors"}, nil, []string{"is 0x20, first_error 0x20: ", "reset the card's ports"},
		},
		"evidence alone": {map[string]uint64{"fme/first_error": 1, "fme/next_error": 1, "port0/first_error": 1, "port0/first_malformed_req": 1}, "", nil, nil, nil},
		"links":          {map[string]uint64{"fme/pcie0_errors": 1, "fme/pcie1_errors": 1 << 63}, "", []string{"pcie0-errors RESET by pcie0_errors", "pcie1-errors RESET by pcie1_errors"}, nil, []string{"0x8000000000000000"}},
		"port": {
			map[string]uint64{"port0/errors": 0x12, "port0/first_error": 2, "port0/first_malformed_req": 7}, "", nil,
			[]string{"port-errors RESET by errors"}, []string{"errors of dfl-port.0 (0000:05:00.0 port 0) is 0x12, first_error 0x2, first_malformed_req 0x7: ", "reset the port"},
		},
		"half speed":  {nil, "0x1\n", nil, []string{"throttled SELF by power_state_ap1"}, []string{"power_state of dfl-port.0 (0000:05:00.0 port 0) is AP1", "by half"}},
		"slow":        {nil, "2\n", nil, []string{"throttled SELF by power_state_ap2"}, []string{"AP2", "90 %"}},
		"shut down":   {nil, "0x6\n", nil, []string{"shut-down RESET by power_state_ap6"}, []string{"AP6", "stopped"}},
		"other state": {nil, "0x3\n", nil, nil, nil},
		"all": {
			map[string]uint64{"fme/catfatal_errors": 1, "fme/nonfatal_errors": 1, "fme/fme_errors": 1, "port0/errors": 1}, "0x6\n",
			[]string{"catfatal-errors REBOOT by catfatal_errors", "fme-errors RESET by fme_errors", "nonfatal-errors SELF by nonfatal_errors"},
			[]string{"port-errors RESET by errors", "shut-down RESET by power_state_ap6"}, nil,
		},
	} {
		tree := fpgatest.Tree(t, fpgatree.NewD5005())
		at := address(t, "0000:05:00.0")
		for register, value := range c.registers {
			fpgatest.OK(t, tree.SetRegister(at, register, value))
		}
		if dir, err := tree.Find(at, "port0"); c.power != "" {
			fpgatest.OK(t, errors.Join(err, tree.SetFile(dir+"/power_state", c.power)))
		}
		card, region := port(t, on(tree, DFL), "fpga-0000-05-00-0-port-0")
		if diff := cmp.Diff(c.card, brief(card.Faults)); diff != "" {
			t.Errorf("%s: the card's faults (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.region, brief(region.Faults)); diff != "" {
			t.Errorf("%s: the port's faults (-want +got):\n%s", name, diff)
		}
		text := ""
		for _, f := range append(card.Faults, region.Faults...) {
			text += f.Text + "\n"
			if h := sdk.Fault(f.Code, f.Recovery, f.Text); h.GetMessage() != f.Text {
				t.Errorf("%s: the text is cut off: %q", name, f.Text)
			}
		}
		for _, want := range c.text {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the text is %q, want %q", name, text, want)
			}
		}
	}
}

// Verifies the counts, their names and that none of them only grows.
func TestCounts(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	at := address(t, "0000:05:00.0")
	dir, err := tree.Find(at, "port0")
	fpgatest.OK(t, errors.Join(err, tree.SetRegister(at, "fme/pcie1_errors", 4), tree.SetFile(dir+"/power_state", "0x2\n")))
	c, r := port(t, on(tree, DFL), "fpga-0000-05-00-0-port-0")
	var want []driver.Count
	for _, register := range []string{"catfatal_errors", "fme_errors", "pcie0_errors", "pcie1_errors", "nonfatal_errors"} {
		count := driver.Count{Name: "error_register_raised", Label: register}
		if register == "pcie1_errors" {
			count.Value = 1
		}
		want = append(want, count)
	}
	if diff := cmp.Diff(want, c.Counts); diff != "" {
		t.Errorf("the card counts (-want +got):\n%s", diff)
	}
	want = []driver.Count{{Name: "error_register_raised", Label: "errors"}, {Name: "power_state", Value: 2}}
	if diff := cmp.Diff(want, r.Counts); diff != "" {
		t.Errorf("the port counts (-want +got):\n%s", diff)
	}
}

// Verifies that a port of a card that does not answer is left out, not listed as empty.
func TestSilentPort(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewVF())
	vf := address(t, "0000:05:00.1")
	fpgatest.OK(t, errors.Join(tree.Program(vf, 0, fpgatree.NoAFU), tree.SetRegister(vf, "port0/errors", silent)))
	r := on(tree, DFL).Read()
	if len(r.Cards) != 2 || len(r.Cards[1].Regions) != 0 || len(r.Problems) != 1 || !r.Problems[0].Lost || !strings.Contains(r.Problems[0].Err.Error(), "does not answer") {
		t.Errorf("%+v", r)
	}
}

// Verifies the sensors with their units, names that tell them apart, and which alarms
// are faults.
func TestSense(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewN3000())
	at := address(t, "0000:05:00.0")
	d := on(tree, DFL)
	c, _ := port(t, d, "fpga-0000-05-00-0-port-0")
	got := d.Sense(c)
	want := driver.Senses{Sensors: []driver.Sensor{
		{Metric: "power_watts", Sensor: "dfl_fme_power power1", Value: 31},
		{Metric: "temperature_celsius", Sensor: "dfl_fme_thermal temp1", Value: 47},
		{Metric: "voltage_volts", Sensor: "FPGA Core Voltage", Value: 0.88},
		{Metric: "power_watts", Sensor: "Board Power", Value: 64.709},
		{Metric: "temperature_celsius", Sensor: "Board Temperature", Value: 35},
		{Metric: "temperature_celsius", Sensor: "FPGA Die Temperature", Value: 50},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("senses (-want +got):\n%s", diff)
	}
	fpgatest.OK(t, errors.Join(tree.SetSensor(at, "dfl_fme_thermal", "temp1_max_alarm", 1), tree.SetSensor(at, "dfl_fme_power", "power1_max_alarm", 1)))
	if got := d.Sense(c); len(got.Faults) > 0 {
		t.Errorf("faults of limits that only slow down: %v", got.Faults)
	}
	fpgatest.OK(t, errors.Join(tree.SetSensor(at, "dfl_fme_thermal", "temp1_crit_alarm", 1), tree.SetSensor(at, "dfl_fme_power", "power1_crit_alarm", 1)))
	got = d.Sense(c)
	if diff := cmp.Diff([]string{"power-critical SELF by power1_crit_alarm", "temperature-critical SELF by temp1_crit_alarm"}, brief(got.Faults)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if text := got.Faults[1].Text; !strings.Contains(text, "temp1_crit_alarm of fpga-0000-05-00-0 (dfl_fme_thermal, dfl_fme_thermal temp1) is raised at 47 °C (critical: 93 °C)") {
		t.Error(text)
	}
	// An impossible value is left out and named, and is not in the text of the alarm.
	fpgatest.OK(t, tree.SetSensor(at, "dfl_fme_thermal", "temp1_input", 4294966296))
	got = d.Sense(c)
	if !slices.Equal(got.Implausible, []string{"dfl_fme_thermal temp1"}) || len(got.Sensors) != 5 || len(got.Faults) != 2 || strings.Contains(got.Faults[1].Text, "4294") {
		t.Errorf("with an impossible value: %+v", got)
	}
	// A card that was removed has none.
	fpgatest.OK(t, tree.Unplug(0))
	if got := d.Sense(c); len(got.Sensors)+len(got.Faults) > 0 {
		t.Errorf("a card that has gone: %v", got)
	}
	// Labels that two sensors share are not used.
	tree = fpgatest.Tree(t, fpgatree.NewN3000())
	hwmon := "sys/class/hwmon/hwmon2/"
	fpgatest.OK(t, errors.Join(tree.SetFile(hwmon+"temp1_label", "Temperature\n"), tree.SetFile(hwmon+"temp2_label", "Temperature\n")))
	names := map[string]bool{}
	for _, s := range on(tree, DFL).Sense(c).Sensors {
		names[s.Metric+s.Sensor] = true
	}
	if len(names) != 6 || !names["temperature_celsiusn3000bmc_hwmon temp2"] {
		t.Errorf("sensors are %v", names)
	}
}

// Verifies names of cards: known ones, the subsystem where only that distinguishes them, and the
// numbers of unknown ones.
func TestModels(t *testing.T) {
	for name, want := range map[string]struct {
		device, subsystem uint16
		model             string
	}{
		"unknown": {0x1234, 0, "Intel FPGA 8086:1234"}, "C6100": {0xbcce, 0x17d4, "Intel IPU Platform F2000X (C6100)"},
		"OFS": {0xbcce, 0x4711, "Intel Open FPGA Stack"}, "N6001": {0xbcce, 0x1771, "Intel FPGA SmartNIC N6001"},
		"D5005": {0x0b2b, 0x1770, "Intel FPGA PAC D5005"},
	} {
		m := fpgatree.NewD5005()
		m.Cards[0].Model.Device, m.Cards[0].Model.Subsystem, m.Cards[0].VFs = want.device, want.subsystem, 1
		r := reading(t, on(fpgatest.Tree(t, m), DFL))
		if r.Cards[0].Model != want.model {
			t.Errorf("%s: %q, want %q", name, r.Cards[0].Model, want.model)
		}
		if vf := r.Cards[1].Model; vf != want.model && name != "unknown" {
			t.Errorf("%s: the virtual function is %q", name, vf)
		}
	}
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	fpgatest.OK(t, tree.SetFile("sys/bus/pci/devices/0000:05:00.0/vendor", "0x1c2d\n"))
	if r := reading(t, on(tree, DFL)); r.Cards[0].Model != "FPGA 1c2d:0b2b" {
		t.Error(r.Cards[0].Model)
	}
}

// Verifies what the older driver has instead of hwmon: the sensors of the board's
// controller below SPI, in thousandths, and the power that the FPGA takes, in watts; and which
// threshold is an alarm.
func TestSenseOlderDriver(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewArria10())
	fme, err := tree.Find(address(t, "0000:05:00.0"), "fme")
	fpgatest.OK(t, err)
	spi := fme + "/spi-altera.0.auto/spi_master/spi0/spi0.0/"
	for file, text := range map[string]string{
		spi + "sensor0/name": "Total Input Power\n", spi + "sensor0/type": "Power\n", spi + "sensor0/value": "52000\n",
		spi + "sensor1/name": "12V Backplane Current\n", spi + "sensor1/type": "Current\n", spi + "sensor1/value": "0xbb8\n",
		spi + "sensor2/name": "12V Backplane Voltage\n", spi + "sensor2/type": "Voltage\n", spi + "sensor2/value": "12150\n",
		spi + "sensor3/name": "FPGA Die Temperature\n", spi + "sensor3/type": "Temperature\n", spi + "sensor3/value": "41500\n",
		spi + "sensor4/name": "QSFP Temperature\n", spi + "sensor4/type": "Temperature\n", spi + "sensor4/value": "NA\n",
		spi + "sensor5/name": "Fan\n", spi + "sensor5/type": "Speed\n", spi + "sensor5/value": "900\n",
		fme + "/power_mgmt/consumed": "0x2f\n",
	} {
		path := filepath.Join(tree.Root, file)
		fpgatest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o600)))
	}
	d := on(tree, OPAE)
	c, _ := port(t, d, "fpga-0000-05-00-0-port-0")
	want := driver.Senses{Sensors: []driver.Sensor{
		{Metric: "power_watts", Sensor: "power_mgmt power1", Value: 47},
		{Metric: "power_watts", Sensor: "Total Input Power", Value: 52},
		{Metric: "current_amperes", Sensor: "12V Backplane Current", Value: 3},
		{Metric: "voltage_volts", Sensor: "12V Backplane Voltage", Value: 12.15},
		{Metric: "temperature_celsius", Sensor: "FPGA Die Temperature", Value: 41.5},
		{Metric: "temperature_celsius", Sensor: "thermal_mgmt temp1", Value: 38},
	}}
	if diff := cmp.Diff(want, d.Sense(c)); diff != "" {
		t.Errorf("senses (-want +got):\n%s", diff)
	}
	for file, faults := range map[string][]string{"threshold1_reached": nil, "threshold2_reached": {"temperature-critical SELF by threshold2_reached"}} {
		fpgatest.OK(t, tree.SetFile(fme+"/thermal_mgmt/"+file, "1\n"))
		if diff := cmp.Diff(faults, brief(d.Sense(c).Faults)); diff != "" {
			t.Errorf("with %s (-want +got):\n%s", file, diff)
		}
		fpgatest.OK(t, tree.SetFile(fme+"/thermal_mgmt/"+file, "0\n"))
	}
}
