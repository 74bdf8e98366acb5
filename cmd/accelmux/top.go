package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/telemetry"
)

func newTopCommand() *cobra.Command {
	return withWatch(newAskCommand(&cobra.Command{
		Use:   "top",
		Short: "Show the load, memory, temperature and power of the node's devices",
		Long: `Shows the newest values of the node's devices, and the containers that hold them. The
agent measures devices only when values are requested, and for some minutes after.
The first values may take a second; until then a device has none. -o json and yaml
show everything that the backends measure.`,
		Example: `  accelmux top -w
  accelmux top -o json | jq '.devices[] | {id, values}'`,
	}, (*status.Client).Telemetry, topTable))
}

func topTable(w *tabwriter.Writer, t status.Telemetry) {
	row(w, "BACKEND", "DEVICE", "RESOURCE", "LOAD", "MEMORY", "TEMPERATURE", "POWER", "HELD BY")
	for _, d := range t.Devices {
		row(w, d.Backend, d.ID, d.Resource, shown(d, "utilization_ratio", 100, "%.0f%%"), memory(d),
			shown(d, "temperature_celsius", 1, "%.0f °C"), shown(d, "power_watts", 1, "%.0f W"), holdersColumn(d.Holders))
	}
	if len(t.Missing) > 0 {
		fmt.Fprintln(w)
	}
	for _, backend := range slices.Sorted(maps.Keys(t.Missing)) {
		fmt.Fprintf(w, "backend %s has no values: %s\n", backend, t.Missing[backend])
	}
}

// shown formats a value; "" if the device has none of that name.
func shown(d status.Measured, name string, factor float64, format string) string {
	value, ok := leading(d.Values, name)
	if !ok {
		return ""
	}
	return fmt.Sprintf(format, value*factor)
}

// leading returns the value to show for a name: the one without labels, the one of the sensor
// "gpu", or otherwise the highest.
func leading(values []telemetry.Value, name string) (value float64, ok bool) {
	for _, v := range values {
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

// memory formats how much of a device's memory is in use.
func memory(d status.Measured) string {
	const gibibyte = 1 << 30
	used, isUsed := leading(d.Values, "memory_used_bytes")
	total, known := leading(d.Values, "memory_total_bytes")
	if !known {
		total, known = float64(d.Memory), d.Memory > 0
	}
	switch {
	case isUsed && known:
		return fmt.Sprintf("%.1f of %.1f GiB", used/gibibyte, total/gibibyte)
	case isUsed:
		return fmt.Sprintf("%.1f GiB", used/gibibyte)
	}
	return ""
}
