package main

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Verifies what people see: the values that stand for a device, in units that are
// easy to read, a dash for what there is not, and why there is nothing at all.
func TestTopTable(t *testing.T) {
	sensor := func(name string, celsius float64) listing.Value {
		return listing.Value{Name: "temperature_celsius", Labels: map[string]string{"sensor": name}, Value: celsius}
	}
	healthy, unhealthy := true, false
	telemetry := listing.Telemetry{
		Devices: []listing.Measured{
			{
				Backend: "nvidia", ID: "GPU-1", Resource: "nvidia.com/gpu", Healthy: &unhealthy, Faults: []listing.Fault{{Code: "hot", Recovery: "self"}},
				Values: []listing.Value{
					{Name: "utilization_ratio", Value: 0.374}, sensor("memory", 70), sensor("gpu", 61.4),
					{Name: "memory_used_bytes", Value: 3.25 * (1 << 30)}, {Name: "memory_total_bytes", Value: 80 << 30},
					{Name: "power_watts", Value: 210.4},
				},
				Holders: []listing.Holder{{Namespace: "team", Pod: "train", Container: "main"}},
			},
			{
				Backend: "amd", ID: "a", Memory: 16 << 30,
				Values: []listing.Value{sensor("edge", 50), sensor("junction", 66), {Name: "memory_used_bytes", Value: 1 << 30}},
			},
		},
		Missing: map[string]string{"other": "the backend has no telemetry"},
	}
	for i := range 4 {
		telemetry.Devices = append(telemetry.Devices, listing.Measured{
			Backend: "other", ID: fmt.Sprint("b-", i), Parent: "b", Resource: "example.com/fpga", Healthy: &healthy, Memory: 1 << 30,
		})
	}
	print := func(width int) string {
		var out bytes.Buffer
		w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
		topTable(w, telemetry, width)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for width, want := range map[int]string{
		0: `BACKEND  DEVICE           RESOURCE          HEALTH          LOAD  MEMORY      TEMPERATURE  POWER  HELD BY
nvidia   GPU-1            nvidia.com/gpu    unhealthy: hot  37%   3.2/80 GiB  61 °C        210 W  team/train/main
amd      a                -                 -               -     1.0/16 GiB  66 °C        -      -
other    b-0 ... b-3 (4)  example.com/fpga  healthy         -     -           -            -      -

backend other has no values: the backend has no telemetry
`,
		72: `DEVICE           HEALTH          LOAD  MEMORY      TEMPERATURE  POWER
GPU-1            unhealthy: hot  37%   3.2/80 GiB  61 °C        210 W
a                -               -     1.0/16 GiB  66 °C        -
b-0 ... b-3 (4)  healthy         -     -           -            -

backend other has no values: the backend has no telemetry
`,
		20: `DEVICE           HEALTH          LOAD
GPU-1            unhealthy: hot  37%
a                -               -
b-0 ... b-3 (4)  healthy         -

backend other has no values: the backend has no telemetry
`,
	} {
		if got := print(width); got != want {
			t.Errorf("in %d characters it printed\n%s\nwant\n%s", width, got, want)
		}
	}
	l := load{telemetry, status.Report{Node: "node-1", Problems: make([]status.Problem, 1)}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got, want := l.title(), "node-1  03:04:05  5 devices, 1 unhealthy; 1 problem, see accelmux status"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	for order, want := range map[string]string{"device": "GPU-1 a b-0", "temperature": "a GPU-1 b-0", "power": "GPU-1 a b-0", "memory": "GPU-1 a b-0"} {
		sorted := slices.Clone(telemetry.Devices)
		slices.SortStableFunc(sorted, func(a, b listing.Measured) int { return listing.Compare(a, b, order) })
		if got := fmt.Sprint(sorted[0].ID, " ", sorted[1].ID, " ", sorted[2].ID); got != want {
			t.Errorf("by %s the devices are %s, want %s", order, got, want)
		}
	}
}
