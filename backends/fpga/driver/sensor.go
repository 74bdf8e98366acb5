package driver

// Senses are the readings of a card's sensors.
type Senses struct {
	// Sensors are added with [Senses.Measure].
	Sensors []Sensor
	// Implausible are the names of sensors whose values are impossible.
	Implausible []string
	// Faults are the alarms that the card reports.
	Faults []Fault
}

// Sensor is a value in a base unit.
type Sensor struct {
	// Metric is temperature_celsius, power_watts, voltage_volts or current_amperes.
	Metric string
	// Sensor is the sensor's name, unique within the card, as the kernel or the card has it.
	Sensor string
	Value  float64
}

// bounds are the least and greatest values that a sensor can have, by metric. Some
// controllers write negative values as unsigned 32-bit numbers: in the kernel's units (m°C,
// µW, mV, mA) these read as at least 4,294,900 °C, V or A, or 4,290 W.
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
