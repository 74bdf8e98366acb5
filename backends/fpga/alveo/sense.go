package alveo

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Metrics of sensors.
const (
	temperature = "temperature_celsius"
	power       = "power_watts"
	voltage     = "voltage_volts"
	current     = "current_amperes"
)

// PowerWarning is the code of the controller's warning that the card draws too much power.
const PowerWarning = "power-warning"

// Sense reads the sensors of the board's controller: its own files (xmc_* in XRT's
// subdev/xmc.c), or those of hwmon that Versal cards have. The drivers keep them for a
// second or so. It is empty for a card in reset.
func (d *Driver) Sense(c driver.Card) driver.Senses {
	card, err := d.again(c)
	if err != nil || card.Offline() != "" {
		return driver.Senses{}
	}
	s := sensor{reader: &reader{root: filepath.Clean(d.host.Sysfs), file: sysfs.Read}}
	// Both functions have the same sensors; the management function reads them directly.
	if m := card.Management; m != nil {
		s.function(m.Dir, m.controllers)
	}
	if u := card.User; u != nil && len(s.senses.Sensors) == 0 {
		s.function(u.Dir, u.controllers)
	}
	slices.SortFunc(s.senses.Sensors, func(a, b driver.Sensor) int { return strings.Compare(a.Metric+a.Sensor, b.Metric+b.Sensor) })
	return s.senses
}

// sensor reads the sensors of a card.
type sensor struct {
	*reader
	senses driver.Senses
}

// function reads those of a function.
func (s *sensor) function(dir string, controllers []string) {
	for _, name := range controllers {
		s.controller(filepath.Join(dir, name))
	}
	if len(s.senses.Sensors) > 0 {
		return
	}
	// hwmon has the controller's values, under less exact names.
	places := []string{dir}
	for _, name := range controllers {
		places = append(places, filepath.Join(dir, name))
	}
	for _, place := range places {
		for _, chip := range names(filepath.Join(s.root, place, "hwmon")) {
			s.chip(filepath.Join(place, "hwmon", chip))
		}
	}
}

// units are the metrics of the controller's files by how their names end or what they
// have in them, and how many of the file's units the metric's unit has.
var units = []struct {
	suffix, within, metric string
	scale                  float64
}{
	{suffix: "_vol", metric: voltage, scale: 1e3}, {suffix: "_curr", metric: current, scale: 1e3},
	{suffix: "_cur", metric: current, scale: 1e3}, {suffix: "_i", metric: current, scale: 1e3}, {within: "_temp", metric: temperature, scale: 1},
	{suffix: "xmc_power", metric: power, scale: 1e6},
}

// rails are the files of voltages whose names do not show the unit.
var rails = []string{
	"xmc_ddr_vpp_btm", "xmc_ddr_vpp_top", "xmc_sys_5v5", "xmc_1v2_top", "xmc_1v8", "xmc_0v85", "xmc_mgt0v9avcc", "xmc_12v_sw", "xmc_mgtavtt",
	"xmc_vcc1v2_btm", "xmc_12v_aux1", "xmc_vccaux", "xmc_vccaux_pmc", "xmc_vccram",
}

// measured returns what a file of the controller measures, and in which unit.
func measured(file string) (metric string, scale float64, ok bool) {
	if slices.Contains(rails, file) {
		return voltage, 1e3, true
	}
	if !strings.HasPrefix(file, "xmc_") {
		return "", 0, false
	}
	for _, u := range units {
		if u.suffix != "" && strings.HasSuffix(file, u.suffix) || u.within != "" && strings.Contains(file, u.within) {
			return u.metric, u.scale, true
		}
	}
	return "", 0, false
}

// controller reads the files of the board's controller. They have 0 for what the board
// does not have.
func (s *sensor) controller(dir string) {
	for _, file := range names(filepath.Join(s.root, dir)) {
		if metric, scale, ok := measured(file); ok {
			if n, ok := s.value(dir, file); ok && n != 0 {
				s.senses.Measure(driver.Sensor{Metric: metric, Sensor: file, Value: float64(n) / scale})
			}
		}
	}
	if n, ok := s.value(dir, "xmc_power_warn"); ok && n != 0 {
		s.alarm(PowerWarning, "xmc_power_warn", filepath.Join(dir, "xmc_power_warn"), "the card takes more power than it may")
	}
}

// quantities are hwmon's (Documentation/hwmon/sysfs-interface.rst).
var quantities = []struct {
	prefix, metric string
	scale          float64
}{{"temp", temperature, 1e3}, {"power", power, 1e6}, {"curr", current, 1e3}, {"in", voltage, 1e3}}

// chip reads a device of hwmon: its values, and alarms that are raised. A value beyond
// what is critical is an alarm, too, where the driver has none.
func (s *sensor) chip(dir string) {
	for _, file := range names(filepath.Join(s.root, dir)) {
		key, ok := strings.CutSuffix(file, "_input")
		if !ok {
			key, ok = strings.CutSuffix(file, "_average")
			ok = ok && strings.HasPrefix(key, "power")
		}
		for _, q := range quantities {
			number, is := strings.CutPrefix(key, q.prefix)
			if !ok || !is || !isDigits(number) {
				continue
			}
			n, there := s.value(dir, file)
			if !there {
				continue
			}
			label, err := s.text(s.root, dir, key+"_label")
			if label = driver.Printable(label); err != nil || label == "" {
				label = key
			}
			if !s.senses.Measure(driver.Sensor{Metric: q.metric, Sensor: label, Value: float64(n) / q.scale}) {
				continue
			}
			if limit, ok := s.value(dir, key+"_crit"); ok && limit > 0 && n >= limit {
				s.alarm("critical-"+q.prefix, key+"_crit", filepath.Join(dir, file), fmt.Sprintf("%s is beyond what is critical for the card", label))
			}
		}
		if alarm, ok := strings.CutSuffix(file, "_alarm"); ok {
			if n, ok := s.value(dir, file); ok && n != 0 {
				s.alarm("alarm-"+alarm, file, filepath.Join(dir, file), "the board's controller has raised an alarm")
			}
		}
	}
}

// value returns a number of a file, if it has one. That a sensor has none is no problem.
func (s *sensor) value(dir, file string) (int64, bool) {
	text, err := s.text(s.root, dir, file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func (s *sensor) alarm(code, cause, file, text string) {
	s.senses.Faults = append(s.senses.Faults, driver.Fault{
		Code: strings.ReplaceAll(code, "_", "-"), Cause: cause, Recovery: sdk.RecoverySelf,
		Text: fmt.Sprintf("%s (%s); check the cooling and power of the node", text, file),
	})
}

// errNoCard is for calls with a card of another driver.
var errNoCard = errors.New("the card has no user function here: it is in a virtual machine, or its driver is not loaded")
