package alveo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// Each defect is a fault with its recovery, and nothing else is.
func TestFaults(t *testing.T) {
	const user, management = fpgatree.User, fpgatree.Management
	set := func(side fpgatree.Side, file, text string) func(*fpgatree.Tree) error {
		return func(t *fpgatree.Tree) error { return t.SetAlveo(0, side, file, text+"\n") }
	}
	trip := func(level int, name string, status uint32, at int64) func(*fpgatree.Tree) error {
		return func(t *fpgatree.Tree) error { return t.TripFirewall(0, level, name, status, at) }
	}
	wasTripped := func(t *fpgatree.Tree) error {
		return errors.Join(t.TripFirewall(0, 2, "x", 4, 5), t.TripFirewall(0, 0, "", 0, 0))
	}
	for name, c := range map[string]struct {
		alone    bool // in a virtual machine
		do       func(*fpgatree.Tree) error
		state    driver.State
		code     string
		recovery sdk.Recovery
		text     string
	}{
		"firewall": {
			false, trip(2, "ep_firewall_ctrl_user_00", 0x80000, 1700000000), driver.Unloaded, FirewallTripped, sdk.RecoveryReset,
			"the AXI firewall of level 2 is tripped (ep_firewall_ctrl_user_00, which guards control of kernels by the user function, since 2023-11-14T22:13:20Z): the kernel did not acknowledge a write in time; bus/pci/devices/0000:65:00.0/firewall.m",
		},
		"firewall, alone": {
			true, trip(0, "", 0x80, 0), driver.Unloaded, FirewallTripped, sdk.RecoveryReset,
			"level 0 is tripped: a read went to an address that nothing answers; bus/pci/devices/0000:65:00.0/firewall.u",
		},
		"firewall of no level": {
			false, func(t *fpgatree.Tree) error {
				return errors.Join(t.TripFirewall(0, 2, "x", 0x80000, 5), t.SpoilAlveo(0, management, "firewall/level", os.RemoveAll))
			}, driver.Unloaded, FirewallTripped, sdk.RecoveryReset, "an AXI firewall is tripped: the kernel did not acknowledge",
		},
		"firewall was":         {false, wasTripped, driver.Unloaded, "", 0, ""},
		"reset":                {false, func(t *fpgatree.Tree) error { return t.BeginReset(0) }, driver.Busy, CardOffline, sdk.RecoverySelf, "dev_offline)"},
		"management in reset":  {false, set(management, "dev_offline", "1"), driver.Busy, CardOffline, sdk.RecoverySelf, "0000:65:00.0/dev_offline"},
		"shutdown":             {false, set(user, "shutdown", "1"), driver.Busy, CardShutdown, sdk.RecoverySelf, "0000:65:00.1/shutdown is 1"},
		"not ready":            {false, set(user, "ready", "0x0"), driver.Unloaded, CardNotReady, sdk.RecoverySelf, "xocl cannot reach xclmgmt"},
		"not ready, alone":     {true, set(user, "ready", "0x0"), driver.Unloaded, CardNotReady, sdk.RecoverySelf, "mpd"},
		"golden":               {false, set(management, "recovery", "1"), driver.Unloaded, ManagementNotReady, sdk.RecoveryReboot, "0000:65:00.0/recovery is 1): flash a shell by xbmgmt program --base --device 0000:65:00.0"},
		"management not ready": {false, set(management, "ready", "0"), driver.Unloaded, ManagementNotReady, sdk.RecoverySelf, "xclmgmt has not brought the card up"},
	} {
		m := fpgatree.NewAlveo(fpgatree.U250)
		m.Alveos[0].UserOnly = c.alone
		tree := fpgatest.Tree(t, m)
		d := newDriver(tree, Settings{})
		fpgatest.OK(t, c.do(tree))
		card := one(t, d)
		if card.Regions[0].State != c.state {
			t.Errorf("%s: it is %s, want %s", name, card.Regions[0].State, c.state)
		}
		if faults := len(card.Faults); faults > 1 || (faults == 1) != (c.code != "") {
			t.Errorf("%s: it has %+v", name, card.Faults)
		}
		for _, f := range card.Faults {
			if f.Code != c.code || f.Recovery != c.recovery || !strings.Contains(f.Text, c.text) || f.Cause == "" || len(f.Text) > 1000 {
				t.Errorf("%s: %+v, want %s by %v: %q", name, f, c.code, c.recovery, c.text)
			}
		}
	}
}

// Verifies that a card with only the golden image that it came with, which has no user function and mostly no
// serial number, is to be flashed, whichever way the driver shows the image; and that one whose user function is in
// a virtual machine is not.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		serial, file, text, want string
	}{
		"by PCI IDs":         {"", "mfg", "1", "0000:65:00.0/mfg is 1"},
		"by a capability":    {"", "recovery", "1", "0000:65:00.0/recovery is 1"},
		"by its name":        {"", "rom/VBNV", "xilinx_u50_GOLDEN_9", "its shell is xilinx_u50_GOLDEN_9"},
		"with a serial":      {"21770205K01Y", "mfg", "1", "0000:65:00.0/mfg is 1"},
		"in a virtual one":   {"21770205K01Y", "mfg", "0", ""},
		"another, no serial": {"", "mfg", "0", "it is in reset or not ready"},
	} {
		m := fpgatree.NewAlveo(fpgatree.U50)
		m.Alveos[0].ManagementOnly, m.Alveos[0].Serial = true, c.serial
		tree := fpgatest.Tree(t, m)
		fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, "ready", "0x0\n"))
		fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, c.file, c.text+"\n"))
		r := newDriver(tree, Settings{}).Read()
		if c.want == "" {
			if len(r.Cards) != 1 || len(r.Problems) != 0 {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if len(r.Cards) != 0 || len(r.Problems) != 1 || !r.Problems[0].Lost || !strings.Contains(r.Problems[0].Err.Error(), c.want) ||
			strings.Contains(r.Problems[0].Err.Error(), "xbmgmt program --base --device 0000:65:00.0") == strings.Contains(name, "another") {
			t.Errorf("%s: cards %+v, problems %v", name, r.Cards, r.Problems)
		}
	}
}

// The card's counters and latched errors are reported.
func TestCounts(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U50))
	fpgatest.OK(t, tree.TripFirewall(0, 2, "ep_firewall_data_h2c_00", 4, 1700000000))
	fpgatest.OK(t, tree.TripFirewall(0, 0, "", 0, 0))
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, "mig/ecc_ce_cnt", "7\n"))
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, "mig/ecc_ue_cnt", "1\n"))
	want := []driver.Count{
		{Name: "firewall_status", Label: "current"}, {Name: "firewall_status", Label: "detected", Value: 4},
		{Name: "firewall_detected_timestamp_seconds", Label: "ep_firewall_data_h2c_00", Value: 1700000000},
		{Name: "memory_corrected_errors_total", Label: "mig0", Grows: true, Value: 7}, {Name: "memory_uncorrected_errors_total", Label: "mig0", Grows: true, Value: 1},
		{Name: "memory_corrected_errors_total", Label: "mig1", Grows: true}, {Name: "memory_uncorrected_errors_total", Label: "mig1", Grows: true},
	}
	if got := one(t, newDriver(tree, Settings{})).Counts; !slices.Equal(got, want) {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
	fpgatest.OK(t, tree.SpoilAlveo(0, fpgatree.Management, "mig/ecc_ue_cnt", os.RemoveAll))
	if got, less := one(t, newDriver(tree, Settings{})).Counts, slices.Delete(slices.Clone(want), 4, 5); !slices.Equal(got, less) {
		t.Errorf("with a counter that is not reported: %+v, want %+v", got, less)
	}
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, "mig/ecc_enabled", "0\n"))
	if got := one(t, newDriver(tree, Settings{})).Counts; len(got) != 5 {
		t.Errorf("with a bank that does not count: %+v", got)
	}
	if got := one(t, newDriver(fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.F1)), Settings{})).Counts; len(got) != 0 {
		t.Errorf("a card on AWS counts %+v", got)
	}
}

// Sensors have base units; those that the board does not have are left out.
func TestSense(t *testing.T) {
	for name, alone := range map[string]bool{"node": false, "virtual machine": true} {
		m := fpgatree.NewAlveo(fpgatree.U250)
		m.Alveos[0].UserOnly = alone
		tree := fpgatest.Tree(t, m)
		d := newDriver(tree, Settings{})
		c := one(t, d)
		want := []driver.Sensor{
			{Metric: current, Sensor: "xmc_12v_pex_curr", Value: 1.864}, {Metric: current, Sensor: "xmc_vccint_curr", Value: 9.2},
			{Metric: power, Sensor: "xmc_power", Value: 22.560392}, {Metric: temperature, Sensor: "xmc_fpga_temp", Value: 41},
			{Metric: voltage, Sensor: "xmc_12v_pex_vol", Value: 12.103}, {Metric: voltage, Sensor: "xmc_3v3_pex_vol", Value: 3.303},
			{Metric: voltage, Sensor: "xmc_vccint_vol", Value: 0.849},
		}
		if got := d.Sense(c); !slices.Equal(got.Sensors, want) || len(got.Faults) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		side := fpgatree.Management
		if alone {
			side = fpgatree.User
		}
		fpgatest.OK(t, tree.SetAlveo(0, side, "xmc/xmc_power_warn", "1\n"))
		if got := d.Sense(c).Faults; len(got) != 1 || got[0].Code != PowerWarning || got[0].Cause != "xmc_power_warn" || !strings.Contains(got[0].Text, "takes more power than it may") {
			t.Errorf("%s: with a warning: %+v", name, got)
		}
		fpgatest.OK(t, tree.BeginReset(0))
		if got := d.Sense(c); len(got.Sensors)+len(got.Faults) != 0 {
			t.Errorf("%s: in reset: %+v", name, got)
		}
	}
}

// Versal cards have their sensors in hwmon, with limits.
func TestSenseHwmon(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.F1))
	dir, err := tree.Alveo(0, fpgatree.User)
	fpgatest.OK(t, err)
	chip := filepath.Join(tree.Root, dir, "hwmon_sdm.u.7/hwmon/hwmon3")
	fpgatest.OK(t, os.MkdirAll(chip, 0o750))
	for file, text := range map[string]string{
		"name": "u55c_hwmon_sdm_mgmt", "temp1_input": "45000", "temp1_label": "PCB", "temp1_crit": "90000", "temp2_input": "91000", "temp2_crit": "90000",
		"power1_input": "25000000", "power1_label": "Total", "curr1_input": "1500", "in0_input": "12100", "in0_label": "12V", "in1_input": "", "fan1_input": "900",
		"temp1_max_alarm": "1", "power1_alarm": "0", "tempx_input": "3",
	} {
		fpgatest.OK(t, os.WriteFile(filepath.Join(chip, file), []byte(text+"\n"), 0o600))
	}
	d := newDriver(tree, Settings{})
	got := d.Sense(one(t, d))
	want := []driver.Sensor{
		{Metric: current, Sensor: "curr1", Value: 1.5}, {Metric: power, Sensor: "Total", Value: 25}, {Metric: temperature, Sensor: "PCB", Value: 45},
		{Metric: temperature, Sensor: "temp2", Value: 91}, {Metric: voltage, Sensor: "12V", Value: 12.1},
	}
	if !slices.Equal(got.Sensors, want) {
		t.Errorf("the sensors are %+v, want %+v", got.Sensors, want)
	}
	var codes []string
	for _, f := range got.Faults {
		codes = append(codes, f.Code+" "+f.Cause)
	}
	if slices.Sort(codes); !slices.Equal(codes, []string{"alarm-temp1-max temp1_max_alarm", "critical-temp temp2_crit"}) {
		t.Errorf("the alarms are %q", codes)
	}
	// Impossible values are left out, and raise no alarm.
	fpgatest.OK(t, os.WriteFile(filepath.Join(chip, "temp2_input"), []byte("4294966296\n"), 0o600))
	if got := d.Sense(one(t, d)); len(got.Sensors) != 4 || !slices.Equal(got.Implausible, []string{"temp2"}) || len(got.Faults) != 1 {
		t.Errorf("with an implausible value: %+v", got)
	}
	if d.Sense(driver.Card{ID: "fpga-none"}).Sensors != nil {
		t.Error("a card that is not there has sensors")
	}
}
