package intel

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// metrics are the names of quantities as metrics.
var metrics = map[Quantity]string{
	Temperature: "temperature_celsius", Power: "power_watts", Voltage: "voltage_volts", Current: "current_amperes",
}

// units are those of quantities in text.
var units = map[Quantity]string{Temperature: "°C", Power: "W", Voltage: "V", Current: "A"}

// Sense reads the sensors of a card. Sensors without a value, or that cannot be read, are left
// out; a virtual function has none.
func (d *Driver) Sense(c driver.Card) driver.Senses {
	found, _ := Sensors(d.host.Sysfs, c.Dir)
	count := map[string]int{}
	for _, s := range found {
		count[metrics[s.Quantity]+s.Label]++
	}
	var senses driver.Senses
	for _, s := range found {
		// The label is for people, where it is one sensor's only.
		name := s.Label
		if name == "" || count[metrics[s.Quantity]+s.Label] > 1 {
			name = s.Chip + " " + s.Name
		}
		if len(name) > maxSensor {
			name = s.Name
		}
		if s.Known {
			s.Known = senses.Measure(driver.Sensor{Metric: metrics[s.Quantity], Sensor: name, Value: s.Value})
		}
		for _, alarm := range s.Alarms {
			if critical(alarm) {
				senses.Faults = append(senses.Faults, alarmFault(c, s, name, alarm))
			}
		}
	}
	return senses
}

// maxSensor is the most bytes of a sensor's name, which is a label of a metric.
const maxSensor = 128

// critical reports whether an alarm means that the card stops or almost does: temp1_crit_alarm,
// in0_lcrit_alarm (Documentation/hwmon/sysfs-interface.rst), or the older driver's second
// threshold, which is the same. temp1_max_alarm means that it throttles, as does the power
// state.
func critical(alarm string) bool {
	return strings.Contains(alarm, "crit") || strings.Contains(alarm, "emergency") || alarm == "threshold2_reached"
}

func alarmFault(c driver.Card, s Sensor, name, alarm string) driver.Fault {
	value := ""
	if s.Known {
		value = fmt.Sprintf(" at %g %s", s.Value, units[s.Quantity])
	}
	if s.Critical != 0 {
		value += fmt.Sprintf(" (critical: %g %s)", s.Critical, units[s.Quantity])
	}
	do := "see to its cooling"
	if s.Quantity != Temperature {
		do = "see to its power supply, and to what the function does"
	}
	return driver.Fault{
		Code: string(s.Quantity) + "-critical", Recovery: sdk.RecoverySelf, Cause: alarm,
		Text: fmt.Sprintf("%s of %s (%s, %s) is raised%s: the FPGA stops its function or slows it down: %s", alarm, c.ID, s.Chip, name, value, do),
	}
}
