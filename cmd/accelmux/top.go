package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/telemetry"
)

func newTopCommand() *cobra.Command {
	command := newAskCommand(&cobra.Command{
		Use:   "top",
		Short: "Show the load, memory, temperature and power of the node's devices",
		Long: `Shows the newest values of the node's devices, and the containers that hold them. The
agent measures devices only when values are requested, and for some minutes after.
The first values may take a second; until then a device has none. -o json and yaml
show everything that the backends measure.`,
		Example: `  accelmux top -w
  accelmux top -o json | jq '.devices[] | {id, values}'`,
	}, (*status.Client).Telemetry, topTable)
	watch := command.Flags().BoolP("watch", "w", false, "repeat until Ctrl-C")
	every := command.Flags().Duration("every", 2*time.Second, "interval of --watch, at least 1s")
	show := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*watch:
			return show(cmd, args)
		case *every < time.Second:
			return errors.New("--every must be at least 1s")
		}
		return repeat(cmd, *every, func() error { return show(cmd, args) })
	}
	return command
}

// repeat prints the output of show at each interval; on a terminal it replaces the one before.
// The end of the command's context is no error. After a first success, errors are printed and
// show is called again: the agent may be restarting.
func repeat(cmd *cobra.Command, every time.Duration, show func() error) error {
	out := cmd.OutOrStdout()
	separator, clear := "\n", ""
	if isTerminal(out) {
		separator, clear = "", "\x1b[H\x1b[2J"
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		var text bytes.Buffer
		text.WriteString(clear)
		if !first {
			text.WriteString(separator)
		}
		cmd.SetOut(&text)
		err := show()
		cmd.SetOut(out)
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintln(&text, err)
		}
		if _, err := out.Write(text.Bytes()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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
