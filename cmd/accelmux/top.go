package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
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

func topTable(w *tabwriter.Writer, t listing.Telemetry) {
	row(w, "BACKEND", "DEVICE", "RESOURCE", "LOAD", "MEMORY", "TEMPERATURE", "POWER", "HELD BY")
	for _, d := range t.Devices {
		row(w, d.Backend, d.ID, d.Resource, d.ValueText("utilization_ratio", 100, "%.0f%%"), d.MemoryText(),
			d.ValueText("temperature_celsius", 1, "%.0f °C"), d.ValueText("power_watts", 1, "%.0f W"), listing.HoldersText(d.Holders))
	}
	if len(t.Missing) > 0 {
		fmt.Fprintln(w)
	}
	for _, backend := range slices.Sorted(maps.Keys(t.Missing)) {
		fmt.Fprintf(w, "backend %s has no values: %s\n", backend, t.Missing[backend])
	}
}
