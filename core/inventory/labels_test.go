package inventory

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that labels of the node are accepted if Kubernetes would, and are left out with a
// problem otherwise.
func TestNodeLabels(t *testing.T) {
	long := strings.Repeat("x", 63)
	good := []*backendv1.NodeLabel{
		{Name: "nvidia.com/gpu.product", Value: "H100", DeviceId: "GPU-1", SharedValue: "H100-SHARED"},
		{Name: "nvidia.com/cuda.driver.rev"},
		{Name: "a.b/" + long, Value: long},
	}
	bad := map[string]*backendv1.NodeLabel{
		"no prefix":              {Name: "gpu", Value: "1"},
		"long prefix":            {Name: strings.Repeat("a.", 50) + "b/gpu"},
		"upper case in prefix":   {Name: "NVIDIA.com/gpu"},
		"line break":             {Name: "nvidia.com/a", Value: "x\ny"},
		"long value":             {Name: "nvidia.com/a", Value: long + "x"},
		"wrong when shared":      {Name: "nvidia.com/a", DeviceId: "GPU-1", SharedValue: "a b"},
		"too long with replicas": {Name: "nvidia.com/a", DeviceId: "GPU-1", SharedValue: long[:60] + "{replicas}"},
		"no device":              {Name: "nvidia.com/a", DeviceId: "GPU 1"},
		"twice":                  {Name: "nvidia.com/gpu.product", Value: "H200"},
	}
	wire := good
	for _, l := range bad {
		wire = append(wire, l)
	}
	var remarks problems
	got := nodeLabels(wire, &remarks)
	want := []NodeLabel{
		{Name: "a.b/" + long, Value: long},
		{Name: "nvidia.com/cuda.driver.rev"},
		{Name: "nvidia.com/gpu.product", Value: "H100", Device: "GPU-1", SharedValue: "H100-SHARED"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(remarks.first) != len(bad) {
		t.Errorf("%d problems, want one for each of %d bad labels: %v", len(remarks.first), len(bad), remarks.first)
	}
}

// Verifies that labels of the node are in the snapshot, and that a change of them alone is one.
func TestSnapshotHasNodeLabels(t *testing.T) {
	s, _ := newTestStore(t)
	for i, value := range []string{"H100", "H200"} {
		wire := inv(uint64(i)+1, wireDevice("a")) //nolint:gosec // small
		wire.NodeLabels = []*backendv1.NodeLabel{{Name: "nvidia.com/gpu.product", Value: value}}
		b := mustReport(t, s, wire)
		if len(b.NodeLabels) != 1 || b.NodeLabels[0].Value != value || !woken(s) {
			t.Errorf("labels %v, want the value %s and a change", b.NodeLabels, value)
		}
	}
}
