package manifest_test

import (
	"testing"

	"github.com/accelmux/accelmux/core/manifest"
)

// Verifies which labels pause a program: by name, or by the beginning of one, and by patterns for the value. Annotations,
// which the agent has beside the labels, don't, and unknown labels pause nothing.
func TestPaused(t *testing.T) {
	m, err := manifest.Load("../../backends/nvidia/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	every := []manifest.Pause{{Label: "a*", Values: []string{"*"}}}
	for name, c := range map[string]struct {
		pauses []manifest.Pause
		labels map[string]string
		want   string
	}{
		"no labels":          {pauses: m.PausedWhile},
		"no pauses":          {labels: map[string]string{"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"}},
		"ordinary":           {pauses: m.PausedWhile, labels: map[string]string{"nvidia.com/gpu.deploy.driver": "true", "nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}},
		"switched off":       {pauses: m.PausedWhile, labels: map[string]string{"nvidia.com/gpu.deploy.device-plugin": "false"}},
		"driver upgrade":     {m.PausedWhile, map[string]string{"a": "b", "nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}, "nvidia.com/gpu.deploy.device-plugin=paused-for-driver-upgrade"},
		"MIG":                {m.PausedWhile, map[string]string{"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, "nvidia.com/gpu.deploy.dcgm=paused-for-mig-change"},
		"by the whole name":  {m.PausedWhile, map[string]string{"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}, "nvidia.com/gpu-driver-upgrade-state=pod-restart-required"},
		"a longer name":      {pauses: m.PausedWhile, labels: map[string]string{"nvidia.com/gpu-driver-upgrade-state.x": "pod-restart-required"}},
		"another's value":    {pauses: m.PausedWhile, labels: map[string]string{"example.com/x": "paused-for-driver-upgrade"}},
		"annotation":         {pauses: every, labels: map[string]string{"annotation:abc": "x"}},
		"the first by name":  {every, map[string]string{"ab": "2", "aa": "1", "annotation:aa": "0"}, "aa=1"},
		"an empty value":     {every, map[string]string{"aa": ""}, "aa="},
		"the prefix, itself": {every, map[string]string{"a": "x"}, "a=x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := manifest.Paused(c.pauses, c.labels); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
