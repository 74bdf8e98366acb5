package nvidia

import (
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

// Verifies that the inventory has the labels of GPU feature discovery, also while a GPU is lost.
func TestNodeLabels(t *testing.T) {
	lib := drivertest.New("H100 80GB", 8)
	r := start(t, lib, 8, `{"edits": {"mode": "runtime"}, "rescan": "1s", "mig": {"strategy": "mixed"}}`)
	before := r.inventory("eight healthy GPUs", healthy(8)).GetNodeLabels()
	got := map[string]string{}
	for _, l := range before {
		got[l.GetName()] = l.GetValue()
	}
	for name, want := range map[string]string{
		"nvidia.com/gpu.count": "8", "nvidia.com/gpu.family": "hopper", "nvidia.com/gpu.compute.major": "9", "nvidia.com/mig.strategy": "mixed",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	lib.Lose(0)
	if after := r.inventory("the first one lost", onlyBad(8, 0, "gpu-lost")).GetNodeLabels(); len(after) != len(before) {
		t.Errorf("%d labels after a GPU was lost, want %d", len(after), len(before))
	}
}
