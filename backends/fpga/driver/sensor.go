package driver

// Senses are what the sensors of a card say.
type Senses struct {
	// Sensors are added with [Senses.Measure].
	Sensors []Sensor
	// Implausible are the names of sensors whose values no card can have.
	Implausible []string
	// Faults are alarms.
	Faults []Fault
}

// Sensor is a value in a base unit.
type Sensor struct {
	// Metric is temperature_celsius, power_watts, voltage_volts or current_amperes.
	Metric string
	// Sensor tells those of a card apart, in the kernel's or the card's own words.
	Sensor string
	Value  float64
}

// bounds are the least and the most that a sensor can measure, by metric. Controllers
// write negative values as unsigned numbers of 32 bits: in the kernel's units (m°C, µW, mV,
// mA) these are at least 4,294,900 °C, V or A, and 4,290 W.
var bounds = map[string]struct{ least, most float64 }{
	"temperature_celsius": {-100, 300},
	"power_watts":         {0, 2000},
	"voltage_volts":       {-500, 500},
	"current_amperes":     {-1000, 1000},
}

// Measure adds a sensor if its value is within the bounds of its metric; otherwise it adds
// its name to Implausible and returns false.
func (s *Senses) Measure(sensor Sensor) bool {
	if b := bounds[sensor.Metric]; sensor.Value < b.least || sensor.Value > b.most {
		s.Implausible = append(s.Implausible, sensor.Sensor)
		return false
	}
	s.Sensors = append(s.Sensors, sensor)
	return true
}
