package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Verifies what people see of devices: partitions that differ in nothing on one line, all that is known of those
// that they name, and what the filters leave.
func TestDevices(t *testing.T) {
	all := []listing.Device{{Backend: "nvidia", ID: "GPU-1", Class: "gpu", Healthy: true, Resource: "nvidia.com/gpu", Replicas: 2,
		Holders: []listing.Holder{{Namespace: "team", Pod: "train", Container: "main"}}}}
	for i := range 4 {
		all = append(all, listing.Device{Backend: "amd", ID: fmt.Sprint("a-cpx-", i), Class: "partition", Parent: "a", Healthy: i != 3, Resource: "amd.com/partition",
			PCIBusID: "0000:05:00.0", Attributes: map[string]any{"model": "MI300X"}, Capacities: map[string]int64{"memory": 24 << 30}})
	}
	all[4].Faults = []listing.Fault{{Code: "hot", Recovery: "self", Message: "it is too hot: check the fans", Since: time.Now().Add(-time.Minute)}}
	const folded = `BACKEND  DEVICE                   CLASS      MODEL   NUMA  RESOURCE                      HEALTH          HELD BY
nvidia   GPU-1                    gpu        -       -     nvidia.com/gpu (shared by 2)  healthy         team/train/main
amd      a-cpx-0 ... a-cpx-2 (3)  partition  MI300X  -     amd.com/partition             healthy         -
amd      a-cpx-3                  partition  MI300X  -     amd.com/partition             unhealthy: hot  -
`
	for name, c := range map[string]struct {
		filter deviceFilter
		write  func(*tabwriter.Writer, []listing.Device)
		want   string
	}{
		"folded": {deviceFilter{}, func(w *tabwriter.Writer, d []listing.Device) {
			deviceTable(w, listing.FoldPartitions(d, devicePart), 0)
		}, folded},
		"narrow": {deviceFilter{unhealthy: true}, func(w *tabwriter.Writer, d []listing.Device) { deviceTable(w, d, 56) },
			"DEVICE   RESOURCE           HEALTH          HELD BY\na-cpx-3  amd.com/partition  unhealthy: hot  -\n"},
		"names":      {deviceFilter{backend: "amd", resource: "amd.com/partition", unhealthy: true}, deviceNames, "amd/a-cpx-3\n"},
		"none":       {deviceFilter{resource: "example.com/x"}, deviceNames, ""},
		"by backend": {deviceFilter{ids: []string{"nvidia/GPU-1"}}, deviceNames, "nvidia/GPU-1\n"},
		"wide": {deviceFilter{ids: []string{"a-cpx-0"}}, wideTable, "BACKEND  DEVICE   CLASS      MODEL   NUMA  RESOURCE           HEALTH   HELD BY  PCI           PARENT  CDI  WHY\n" +
			"amd      a-cpx-0  partition  MI300X  -     amd.com/partition  healthy  -        0000:05:00.0  a       -    -\n"},
		"details": {deviceFilter{ids: []string{"a-cpx-3"}}, deviceDetails, "amd/a-cpx-3\n" +
			"  class:     partition\n  resource:  amd.com/partition\n  health:    unhealthy: hot\n  fault:     hot, for 1m0s: it is too hot: check the fans\n" +
			"  held by:   no container\n  PCI:       0000:05:00.0\n  part of:   a\n  model:     MI300X\n  memory:    24Gi\n"},
	} {
		devices, err := c.filter.of(all)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
		c.write(w, devices)
		if err := w.Flush(); err != nil || out.String() != c.want {
			t.Errorf("%s: printed\n%s\nwant\n%s%v", name, out.String(), c.want, err)
		}
	}
	node := status.Report{Backends: []status.Backend{{Name: "amd"}, {Name: "nvidia"}}, Resources: []status.Resource{{Name: "amd.com/gpu"}}}
	for filter, want := range map[[2]string]string{
		{"nvida", ""}: `there is no backend "nvida" on this node; did you mean "nvidia"?`, {"fpga", ""}: `there is no backend "fpga" on this node; there are amd, nvidia`,
		{"", "amd.com/gpus"}: `there is no resource "amd.com/gpus" on this node; did you mean "amd.com/gpu"?`, {"amd", "amd.com/gpu"}: "",
	} {
		got := ""
		if err := (deviceFilter{backend: filter[0], resource: filter[1]}).check(node); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %s, want %s", filter, got, want)
		}
	}
	if _, err := (deviceFilter{ids: []string{"GPU-2"}}).of(all); err == nil || !strings.Contains(err.Error(), `no device "GPU-2" on this node; did you mean "GPU-1"?`) {
		t.Error(err)
	}
}
