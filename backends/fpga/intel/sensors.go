package intel

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Sensors reads the sensors of a card, which may take as long as its board's controller
// does. dir is [Card.Dir] below the root of sysfs. They are by chip and name.
func Sensors(root, dir string) ([]Sensor, []driver.Problem) {
	r := reader{root: filepath.Clean(root), file: sysfs.Read}
	region := filepath.Join(r.root, dir)
	device := filepath.Base(filepath.Dir(filepath.Dir(region)))
	members, err := r.list()
	if err != nil {
		r.problem(device, false, err)
	}
	var all []Sensor
	for _, m := range members {
		if m.class == hwmon && m.err == nil && below(m.dir, region) {
			all = append(all, r.chip(device, m.dir)...)
		}
	}
	for _, lay := range layouts {
		engines, _ := dirs(region, lay.engine) // of a card that has gone there are none
		for _, engine := range engines {
			all = append(all, r.thermal(device, filepath.Join(engine, "thermal_mgmt"))...)
			all = append(all, r.consumed(filepath.Join(engine, "power_mgmt"))...)
			all = append(all, r.boardSensors(device, engine)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Sensor) int { return cmp.Or(cmp.Compare(a.Chip, b.Chip), cmp.Compare(a.Name, b.Name)) })
	return all, r.problems
}

// chip reads what a hwmon device measures
// (Documentation/hwmon/sysfs-interface.rst).
func (r *reader) chip(device, dir string) []Sensor {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(device, false, err)
		}
		return nil
	}
	name := driver.Printable(r.optional(device, dir, "name"))
	found := map[string]*Sensor{}
	var order []string
	for _, e := range entries {
		key, what, _ := strings.Cut(e.Name(), "_")
		quantity, unit, ok := measured(key)
		if !ok {
			continue
		}
		s := found[key]
		if s == nil {
			s = &Sensor{Chip: name, Name: key, Quantity: quantity}
			found[key], order = s, append(order, key)
		}
		switch {
		case what == "input":
			s.Value, s.Known = r.measure(unit, dir, e.Name())
		case what == "crit":
			s.Critical, _ = r.measure(unit, dir, e.Name())
		case what == "label":
			s.Label = driver.Printable(r.optional(device, dir, e.Name()))
		case strings.HasSuffix(what, "alarm"):
			if r.number(device, 1, dir, e.Name()) == 1 {
				s.Alarms = append(s.Alarms, e.Name())
			}
		}
	}
	var all []Sensor
	for _, key := range order {
		all = append(all, *found[key])
	}
	return all
}

// measured returns what a name such as temp1 measures, and in which unit.
func measured(key string) (Quantity, float64, bool) {
	if isNumbered(key, "temp") {
		return Temperature, 1000, true
	}
	if isNumbered(key, "power") {
		return Power, 1e6, true
	}
	if isNumbered(key, "in") {
		return Voltage, 1000, true
	}
	if isNumbered(key, "curr") {
		return Current, 1000, true
	}
	return "", 0, false
}

// measure reads a value in the kernel's unit, of which the quantity's unit has so many. A sensor
// without a value is no problem: its module may not be plugged in.
func (r *reader) measure(unit float64, parts ...string) (float64, bool) {
	text, err := r.text(parts...)
	if err != nil {
		return 0, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return float64(n) / unit, true
	}
	n, err := driver.ParseNumber(text)
	return float64(n) / unit, err == nil
}

// thermal reads the temperature that the older driver has, in degrees.
func (r *reader) thermal(device, dir string) []Sensor {
	value, ok := r.measure(1, dir, "temperature")
	if !ok {
		return nil
	}
	s := Sensor{Chip: filepath.Base(dir), Name: "temp1", Quantity: Temperature, Value: value, Known: true}
	for _, name := range []string{"threshold1_reached", "threshold2_reached"} {
		if r.number(device, 1, dir, name) == 1 {
			s.Alarms = append(s.Alarms, name)
		}
	}
	return []Sensor{s}
}

// consumed reads the power of the FPGA in watts, which the older driver reports for FPGAs
// in one package with the CPU.
func (r *reader) consumed(dir string) []Sensor {
	value, ok := r.measure(1, dir, "consumed")
	if !ok {
		return nil
	}
	return []Sensor{{Chip: filepath.Base(dir), Name: "power1", Quantity: Power, Value: value, Known: true}}
}

// boardSensors reads the sensors of the board's controller under the older driver. Each has
// a directory sensorN with the files name, type and value, the value in thousandths of the
// unit (as OPAE's libxfpga reads them in metrics_max10.c and metrics_utils.c).
func (r *reader) boardSensors(device, engine string) []Sensor {
	found, _ := filepath.Glob(filepath.Join(engine, "spi-altera.*.auto/spi_master/spi*/spi*.*/sensor*")) // the pattern is a good one
	var all []Sensor
	for _, dir := range found {
		quantity, ok := quantities[r.optional(device, dir, "type")]
		if !ok || len(all) >= maxSensors {
			continue
		}
		s := Sensor{
			Chip: filepath.Base(filepath.Dir(dir)), Name: filepath.Base(dir), Label: driver.Printable(r.optional(device, dir, "name")), Quantity: quantity,
		}
		s.Value, s.Known = r.measure(1000, dir, "value")
		all = append(all, s)
	}
	return all
}

// quantities are the types of the sensors of a board's controller under the older driver.
var quantities = map[string]Quantity{"Temperature": Temperature, "Power": Power, "Voltage": Voltage, "Current": Current}

// maxSensors bounds the number of sensors read from a board's controller.
const maxSensors = 128
