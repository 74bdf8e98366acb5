package manager

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// The sensors below a card are its own, in base units; those of other cards are not.
func TestSense(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewPlainMixed())
	d := at(tree, Defaults())
	chips, err := filepath.Glob(filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:5e:00.0/hwmon/hwmon*"))
	if err != nil || len(chips) != 1 {
		t.Fatal(chips, err)
	}
	name, err := filepath.Rel(tree.Root, chips[0])
	fpgatest.OK(t, err)
	for _, c := range d.Read().Cards {
		got := d.Sense(c)
		if c.Model != "Example CvP FPGA Manager" {
			if len(got.Sensors)+len(got.Faults) > 0 {
				t.Errorf("%s: %+v", c.ID, got)
			}
			continue
		}
		want := []driver.Sensor{{Metric: "voltage_volts", Sensor: "cvp_hwmon in0", Value: 0.85}, {Metric: "temperature_celsius", Sensor: "cvp_hwmon Die", Value: 41.5}}
		if !slices.Equal(got.Sensors, want) || len(got.Faults) > 0 {
			t.Errorf("%+v", got)
		}
		fpgatest.OK(t, tree.SetFile(name+"/temp1_crit_alarm", "1\n"))
		if got := d.Sense(c); len(got.Faults) != 1 || got.Faults[0].Cause != "temp1_crit_alarm" {
			t.Errorf("%+v", got)
		}
		fpgatest.OK(t, tree.SetFile(name+"/temp1_input", "4294966296\n"))
		if got := d.Sense(c); len(got.Sensors) != 1 || !slices.Equal(got.Implausible, []string{"cvp_hwmon Die"}) {
			t.Errorf("with an implausible value: %+v", got)
		}
		fpgatest.OK(t, tree.Spoil(name+"/temp1_input", sysroot.Binary))
		if got := d.Sense(c); len(got.Sensors) != 1 {
			t.Errorf("with a value that is none: %+v", got)
		}
	}
}
