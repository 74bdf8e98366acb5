package listing

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Telemetry is what the backends measure of the devices, for `accelmux top`.
type Telemetry struct {
	// Devices are the listed ones, and their parents that have values.
	Devices []Measured `json:"devices"`
	// Missing is why there are no values, by backend.
	Missing map[string]string `json:"missing,omitempty"`
}

// Measured is one device with its values.
type Measured struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
	// Class is "" for a device that is not listed itself.
	Class    string `json:"class,omitempty"`
	Resource string `json:"resource,omitempty"`
	Parent   string `json:"parent,omitempty"`
	// Healthy is missing for a device that is not listed itself.
	Healthy *bool   `json:"healthy,omitempty"`
	Faults  []Fault `json:"faults,omitempty"`
	// Memory is the device's capacity of that name, in bytes; 0 if it has none.
	Memory  int64    `json:"memory,omitempty"`
	Holders []Holder `json:"holders,omitempty"`
	// SampledAt is when the values were received; nil if there are none.
	SampledAt *time.Time `json:"sampledAt,omitempty"`
	Values    []Value    `json:"values,omitempty"`
}

// Value is one value of a device, in base units.
type Value struct {
	// Name is that of the metric, without accelmux_device_.
	Name string `json:"name"`
	// Labels are the backend's own; nil if there are none.
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
	// Counter: the value only grows. Otherwise it is a gauge.
	Counter bool `json:"counter,omitempty"`
}

// HealthText is that of [Device]; "" for a device that is not listed itself.
func (m Measured) HealthText() string {
	if m.Healthy == nil {
		return ""
	}
	return Device{Healthy: *m.Healthy, Faults: m.Faults}.HealthText()
}

// ValueText formats the value of a name, times factor; "" if the device has none.
func (m Measured) ValueText(name string, factor float64, format string) string {
	value, ok := m.Value(name)
	if !ok {
		return ""
	}
	return fmt.Sprintf(format, value*factor)
}

// Value returns the value to show for a name: the one without labels, the one of the sensor
// "gpu", or otherwise the highest.
func (m Measured) Value(name string) (value float64, ok bool) {
	for _, v := range m.Values {
		switch {
		case v.Name != name:
		case len(v.Labels) == 0, v.Labels["sensor"] == "gpu":
			return v.Value, true
		case !ok || v.Value > value:
			value, ok = v.Value, true
		}
	}
	return value, ok
}

// MemoryText formats how much of the device's memory is in use; "" if that is not known.
func (m Measured) MemoryText() string {
	const gibibyte = 1 << 30
	used, isUsed := m.Value("memory_used_bytes")
	total, known := m.Value("memory_total_bytes")
	if !known {
		total, known = float64(m.Memory), m.Memory > 0
	}
	switch {
	case isUsed && known:
		return fmt.Sprintf("%.1f/%s GiB", used/gibibyte, strings.TrimSuffix(fmt.Sprintf("%.1f", total/gibibyte), ".0"))
	case isUsed:
		return fmt.Sprintf("%.1f GiB", used/gibibyte)
	}
	return ""
}

// Orders are the orders in which devices with their values can be listed; the first is their own.
func Orders() []string { return []string{"device", "load", "memory", "temperature", "power"} }

// Compare orders devices by the value that an order of [Orders] means, the highest first and devices without
// the value last; 0 for their own order.
func Compare(a, b Measured, order string) int {
	name := map[string]string{
		"load": "utilization_ratio", "memory": "memory_used_bytes", "temperature": "temperature_celsius", "power": "power_watts",
	}[order]
	x, isX := a.Value(name)
	y, isY := b.Value(name)
	switch {
	case isX && !isY:
		return -1
	case isY && !isX:
		return 1
	}
	return cmp.Compare(y, x)
}
