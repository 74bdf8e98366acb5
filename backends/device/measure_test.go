package device

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/devicetree"
)

// Telemetry has the sensors of the hardware monitor and the description's files in base units;
// what is no number is left out.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	settings := acmeKind(`"telemetry": {"hwmon": true, "gauges": [{"name": "clock_hertz", "file": "clock", "scale": 1e6}, {"name": "lost_bytes", "file": "status"}],
		"counters": [{"name": "errors_total", "file": "errors"}, {"name": "pcie_fatal_errors_total", "file": "device/aer_dev_fatal#TOTAL_ERR_FATAL"}]}`)
	const hwmon = "sys/devices/pci0000:00/0000:01:00.0/hwmon/hwmon3/"
	tree := devicetree.New(t, acme+hwmon+"temp1_input: 51500\n"+hwmon+"temp1_label: core\n"+hwmon+"temp2_input: x\n"+hwmon+"power1_input: 75000000\n"+
		hwmon+"power1_average: 1\n"+hwmon+"energy1_input: 3000000\n"+hwmon+"fan1_input: 1200\n"+hwmon+"pwm1_input: 3\n"+acmeFile+"clock: 1350\n")
	want := map[string]float64{
		"clock_hertz": 1.35e9, "errors_total": 5, "temperature_celsius core temp1": 51.5, "power_watts power1": 75,
		"pcie_fatal_errors_total": 0, "energy_joules_total energy1": 3, "fan_rotations_per_second fan1": 20,
	}
	for _, m := range measure(t, tree, settings) {
		name := strings.TrimSpace(m.GetName() + " " + m.GetLabels()["sensor"])
		if w, ok := want[name]; !ok || w != m.GetValue() || m.GetDeviceId() != acmeID {
			t.Errorf("%v", m)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// measure returns the telemetry of the devices of a tree.
func measure(t *testing.T, tree devicetree.Tree, settings string) (metrics []*sdk.Metric) {
	t.Helper()
	_, set := on(t, tree.Host(), settings)
	for _, d := range set.Drivers {
		s, _ := d.(source)
		for _, u := range s.Scan(nil).Units {
			metrics = append(metrics, s.Measure(u, u.ID)...)
		}
	}
	return metrics
}
