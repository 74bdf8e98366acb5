package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// What a chip of the class hwmon measures, and in which unit, how many of which are one
// base unit (Documentation/hwmon/sysfs-interface.rst).
var quantities = map[string]struct {
	metric string
	unit   float64
}{
	"temp": {"temperature_celsius", 1000}, "power": {"power_watts", 1e6}, "in": {"voltage_volts", 1000}, "curr": {"current_amperes", 1000},
}

var (
	input = regexp.MustCompile(`^(temp|power|in|curr)[0-9]{1,4}_(input|average)$`)
	alarm = regexp.MustCompile(`^(temp|power|in|curr)[0-9]{1,4}_(crit|lcrit|emergency)_alarm$`)
)

const (
	// maxChips and maxSensors bound what is read of a card.
	maxChips   = 16
	maxSensors = 64
)

// Sense reads the sensors below the device of the manager and those of its regions;
// what a driver of SoCs has elsewhere is not the FPGA's alone. A sensor without a value
// is left out.
func (d *Driver) Sense(c driver.Card) driver.Senses {
	var senses driver.Senses
	chips, err := filepath.Glob(filepath.Join(d.sysfs, "class", "hwmon", "hwmon*"))
	if err != nil {
		return senses
	}
	slices.Sort(chips)
	taken := 0
	for _, link := range chips {
		to, err := os.Readlink(link)
		if err != nil || taken >= maxChips {
			continue
		}
		if dir := filepath.Join(filepath.Dir(link), to); d.has(c, dir) {
			taken++
			d.chip(dir, &senses)
		}
	}
	return senses
}

// has reports whether a directory is below a device of the card.
func (d *Driver) has(c driver.Card, dir string) bool {
	places := []string{c.Dir}
	for _, r := range c.Regions {
		places = append(places, r.Dir)
	}
	return slices.ContainsFunc(places, func(place string) bool {
		device := filepath.Join(d.sysfs, filepath.Dir(filepath.Dir(place)))
		return below(device, filepath.Join(d.sysfs, "devices")) && below(dir, device)
	})
}

// chip reads one chip.
func (d *Driver) chip(dir string, senses *driver.Senses) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	r := reader{file: sysfs.Read}
	name, err := r.line(dir, "name")
	if err != nil {
		name = filepath.Base(filepath.Dir(filepath.Dir(dir)))
	}
	for _, e := range entries {
		if match := input.FindStringSubmatch(e.Name()); match != nil && len(senses.Sensors) < maxSensors {
			key := e.Name()[:len(e.Name())-len(match[2])-1]
			value, ok := r.value(dir, e.Name())
			if !ok {
				continue
			}
			label, err := r.line(dir, key+"_label")
			if err != nil {
				label = key
			}
			q := quantities[match[1]]
			senses.Measure(driver.Sensor{Metric: q.metric, Sensor: name + " " + label, Value: value / q.unit})
		}
		if alarm.MatchString(e.Name()) && len(senses.Faults) < maxSensors {
			if value, ok := r.value(dir, e.Name()); ok && value == 1 {
				senses.Faults = append(senses.Faults, driver.Fault{
					Code: "sensor-alarm", Recovery: sdk.RecoverySelf, Cause: e.Name(),
					Text: fmt.Sprintf("%s of the chip %s is raised: see to cooling and power", filepath.Join(dir, e.Name()), name),
				})
			}
		}
	}
}

// value returns a number of a sensor.
func (r *reader) value(dir, name string) (float64, bool) {
	text, err := r.text(longest, dir, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return float64(n), err == nil
}
