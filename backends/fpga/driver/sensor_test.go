package driver

import "testing"

// Values outside of a card's possible range are refused, whatever the driver reports.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		metric string
		value  float64
		ok     bool
	}{
		{"temperature_celsius", 41, true}, {"temperature_celsius", -40, true}, {"temperature_celsius", 4294966, false}, {"temperature_celsius", -274, false},
		{"power_watts", 400, true}, {"power_watts", 4294.9, false}, {"power_watts", -1, false},
		{"voltage_volts", 12, true}, {"voltage_volts", 4294967, false}, {"current_amperes", -2, true}, {"current_amperes", 4294966, false},
	} {
		var s Senses
		if ok := s.Measure(Sensor{Metric: c.metric, Sensor: "x", Value: c.value}); ok != c.ok || len(s.Sensors) == 1 != ok || len(s.Implausible) == 0 != ok {
			t.Errorf("%s %v: %t, %+v", c.metric, c.value, ok, s)
		}
	}
}
