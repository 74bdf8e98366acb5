package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

// kinds are the links as text: "0-1 NVLINK 4 PCIE_SWITCH".
func kinds(s driver.Snapshot) map[string]string {
	index := map[string]int{}
	for _, g := range s.GPUs {
		index[g.UUID] = g.Index
	}
	all := map[string]string{}
	for _, l := range s.Links {
		text := fmt.Sprintf("%s %d", l.Kind.String()[len("LINK_KIND_"):], l.Count)
		if l.Path != 0 {
			text += " " + l.Path.String()[len("LINK_KIND_"):]
		}
		all[fmt.Sprintf("%d-%d", index[l.A], index[l.B])] = text
	}
	return all
}

// "Asymmetric links panic": NVLinks whose two ends agree, whose ends disagree, and of
// which only one end answers.
func TestNVLinkMesh(t *testing.T) {
	l := drivertest.New("A100 80GB", 4)
	l.Connect(0, 1, 4)
	l.Connect(1, 0, 4)
	l.Connect(0, 2, 4)
	l.Connect(2, 0, 3)
	l.Connect(3, 0, 2)
	l.GPUs[3].SetField(nvml.FI_DEV_NVLINK_LINK_COUNT, 12)
	got := kinds(snapshot(t, open(t, l)))
	want := map[string]string{"0-1": "NVLINK 4 PCIE_SWITCH", "0-2": "NVLINK 3 SAME_NUMA", "0-3": "NVLINK 2 SAME_NUMA", "1-2": "SAME_NUMA 1", "1-3": "SAME_NUMA 1",
		"2-3": "PCIE_SWITCH 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Behind switches all pairs that the fabric manager connects are equal.
func TestNVSwitch(t *testing.T) {
	l := drivertest.New("H100 80GB", 8)
	l.Switch(18)
	d := open(t, l)
	for pair, kind := range kinds(snapshot(t, d)) {
		if !strings.HasPrefix(kind, "NVSWITCH 18 ") {
			t.Errorf("%s is %s", pair, kind)
		}
	}
	for i, g := range l.GPUs {
		g.SetFabric(nvml.GpuFabricInfo{ClusterUuid: [16]uint8{1}, CliqueId: uint32(i / 4), State: nvml.GPU_FABRIC_STATE_COMPLETED})
	}
	got := kinds(snapshot(t, d))
	if got["0-3"] != "NVSWITCH 18 SAME_NUMA" || got["4-7"] != "NVSWITCH 18 SAME_NUMA" || got["3-4"] != "CROSS_NUMA 1" {
		t.Errorf("with two cliques: %v", got)
	}
}

// Verifies that switches connect no GPUs that have not joined the fabric yet.
func TestSwitchesBeforeTheFabric(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	l.Switch(18)
	for _, g := range l.GPUs {
		g.SetFabric(nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_IN_PROGRESS})
	}
	if got := kinds(snapshot(t, open(t, l))); strings.HasPrefix(got["0-1"], "NVSWITCH") {
		t.Errorf("the links are %v", got)
	}
}

// A GPU that fails while its links are read is read again; the others keep their links.
func TestLinksOfAFailingGPU(t *testing.T) {
	l := drivertest.New("H100 80GB", 4)
	l.Switch(2)
	l.Fail(0, "nvmlDeviceGetNvLinkState", nvml.ERROR_UNKNOWN)
	d := open(t, l)
	got := kinds(snapshot(t, d))
	if got["1-2"] != "NVSWITCH 2 SAME_NUMA" || got["0-1"] != "PCIE_SWITCH 1" {
		t.Error(got)
	}
	l.Fail(0, "nvmlDeviceGetNvLinkState", nvml.SUCCESS)
	if got = kinds(snapshot(t, d)); got["0-1"] != "NVSWITCH 2 PCIE_SWITCH" {
		t.Error(got)
	}
}
