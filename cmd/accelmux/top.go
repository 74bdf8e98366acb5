package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

// load is the devices' telemetry with what is shown above it.
type load struct {
	listing.Telemetry
	report status.Report
	at     time.Time
}

func newTopCommand() *cobra.Command {
	var sortBy string
	var screen *watching
	command, screen := withWatch(newAskCommand(&cobra.Command{
		Use:   "top",
		Short: "Show the load, memory, temperature and power of the node's devices",
		Long: `Shows the newest values of the node's devices, and the containers that hold them. The
agent measures devices only when values are requested, and for some minutes after.
The first values may take a second; until then a device has none. -o json and yaml
show everything that the backends measure.

With -w on a terminal, columns that do not fit are left out, in this order: ` + strings.Join(droppedColumns, ", ") + `.`,
		Example: `  accelmux top -w --sort-by load
  accelmux top -o json | jq '.devices[] | {id, values}'`,
	}, func(client *status.Client, ctx context.Context) (answer load, err error) {
		if orders := listing.Orders(); !slices.Contains(orders, sortBy) {
			return load{}, fmt.Errorf("--sort-by %q is not possible%s", sortBy, suggestion.OrAll(sortBy, "use one of", orders))
		}
		if answer.Telemetry, err = client.Telemetry(ctx); err != nil {
			return load{}, err
		}
		slices.SortStableFunc(answer.Devices, func(a, b listing.Measured) int { return listing.Compare(a, b, sortBy) })
		if screen.on {
			answer.report, err = client.Report(ctx)
			answer.at = time.Now()
		}
		return answer, err
	}, func(w *tabwriter.Writer, l load) {
		if screen.on {
			fmt.Fprintln(w, l.title()+"\n")
		}
		topTable(w, l.Telemetry, screen.width)
	}))
	orders := listing.Orders()
	command.Flags().StringVar(&sortBy, "sort-by", orders[0], "`order` of the devices: "+strings.Join(orders, ", ")+"; the highest value first")
	cobra.CheckErr(command.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp)))
	return command
}

// title is the line above the table: where and when, and how many devices and problems there are.
func (l load) title() string {
	listed, unhealthy := 0, 0
	for _, d := range l.Devices {
		if d.Healthy != nil {
			listed++
			if !*d.Healthy {
				unhealthy++
			}
		}
	}
	title := fmt.Sprintf("%s  %s  %s", l.report.Node, l.at.Format(time.TimeOnly), count(listed, "device"))
	if unhealthy > 0 {
		title += fmt.Sprintf(", %d unhealthy", unhealthy)
	}
	if n := len(l.report.Problems); n > 0 {
		title += fmt.Sprintf("; %s, see accelmux status", count(n, "problem"))
	}
	return title
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

var (
	topColumns = []string{"BACKEND", "DEVICE", "RESOURCE", "HEALTH", "LOAD", "MEMORY", "TEMPERATURE", "POWER", "HELD BY"}
	// droppedColumns are those that a narrow screen does without, the first one first.
	droppedColumns = []string{"RESOURCE", "BACKEND", "HELD BY", "POWER", "TEMPERATURE", "MEMORY"}
)

// topTable prints the columns that fit into width characters; all of them if it is 0.
func topTable(w *tabwriter.Writer, t listing.Telemetry, width int) {
	devices := listing.FoldPartitions(t.Devices, func(d *listing.Measured) (string, *string, []any) {
		other := *d
		other.ID = ""
		return d.Parent, &d.ID, topCells(other)
	})
	rows := make([][]any, len(devices))
	for i, d := range devices {
		rows[i] = topCells(d)
	}
	fittingTable(w, width, topColumns, droppedColumns, rows)
	if len(t.Missing) > 0 {
		fmt.Fprintln(w)
	}
	for _, backend := range slices.Sorted(maps.Keys(t.Missing)) {
		fmt.Fprintf(w, "backend %s has no values: %s\n", backend, t.Missing[backend])
	}
}

func topCells(d listing.Measured) []any {
	return []any{
		d.Backend, d.ID, d.Resource, d.HealthText(), d.ValueText("utilization_ratio", 100, "%.0f%%"), d.MemoryText(),
		d.ValueText("temperature_celsius", 1, "%.0f °C"), d.ValueText("power_watts", 1, "%.0f W"), listing.HoldersText(d.Holders),
	}
}
