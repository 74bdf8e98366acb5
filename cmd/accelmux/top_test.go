package main

import (
	"bytes"
	"testing"
	"text/tabwriter"

	"github.com/accelmux/accelmux/core/status/listing"
)

// Verifies what people see: the values that stand for a device, in units that are
// easy to read, a dash for what there is not, and why there is nothing at all.
func TestTopTable(t *testing.T) {
	sensor := func(name string, celsius float64) listing.Value {
		return listing.Value{Name: "temperature_celsius", Labels: map[string]string{"sensor": name}, Value: celsius}
	}
	telemetry := listing.Telemetry{
		Devices: []listing.Measured{
			{
				Backend: "nvidia", ID: "GPU-1", Resource: "nvidia.com/gpu",
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
			{Backend: "other", ID: "b", Resource: "example.com/fpga", Memory: 1 << 30},
		},
		Missing: map[string]string{"other": "the backend has no telemetry"},
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	topTable(w, telemetry)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `BACKEND  DEVICE  RESOURCE          LOAD  MEMORY           TEMPERATURE  POWER  HELD BY
nvidia   GPU-1   nvidia.com/gpu    37%   3.2 of 80.0 GiB  61 °C        210 W  team/train/main
amd      a       -                 -     1.0 of 16.0 GiB  66 °C        -      -
other    b       example.com/fpga  -     -                -            -      -

backend other has no values: the backend has no telemetry
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
