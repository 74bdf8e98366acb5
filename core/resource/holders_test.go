package resource

import (
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// setUp is a device that is set up for so many containers.
func setUp(backend, id, class string, holders uint32) *inventory.Device {
	d := gpu(backend, id)
	d.Class, d.PreparedFor = class, holders
	return d
}

// TestHoldersNote verifies that a resource whose replicas differ from what its
// devices are set up for says so in one sentence, whatever the number of devices.
func TestHoldersNote(t *testing.T) {
	const rest = ": make replicas of the resource and the backend's settings say the same"
	for name, tc := range map[string]struct {
		replicas string
		devices  []*inventory.Device
		want     string
	}{
		"nobody cares": {"2", []*inventory.Device{setUp("a", "1", "gpu", 0)}, ""},
		"as it should": {"2", []*inventory.Device{setUp("a", "1", "gpu", 2), setUp("a", "2", "gpu", 0)}, ""},
		"not shared":   {"1", []*inventory.Device{setUp("a", "1", "gpu", 1)}, ""},
		"nothing":      {"2", nil, ""},
		"one number": {"2", []*inventory.Device{setUp("a", "1", "gpu", 4), setUp("a", "2", "gpu", 0), setUp("a", "3", "gpu", 4), setUp("a", "4", "gpu", 2)},
			"replicas is 2, but backend a has set up 2 of its devices of class gpu for 4 containers each" + rest},
		"replicas forgotten": {"1", []*inventory.Device{setUp("a", "1", "gpu", 4)},
			"replicas is 1, but backend a has set up 1 of its devices of class gpu for 4 containers each" + rest},
		"several": {"2", []*inventory.Device{setUp("a", "1", "npu", 3), setUp("a", "2", "gpu", 5), setUp("a", "3", "gpu", 4)},
			"replicas is 2, but backend a has set up 1 of its devices of class gpu for 4 containers each, " +
				"backend a has set up 1 of its devices of class gpu for 5 containers each, " +
				"backend a has set up 1 of its devices of class npu for 3 containers each" + rest},
	} {
		t.Run(name, func(t *testing.T) {
			m := mapper(t, profile(t, "[{name: a}]", "  - {name: x.io/y, replicas: "+tc.replicas+"}\n"))
			table := m.Map(snapshot(1, backend("a", tc.devices...)), verdicts{}, nil)
			if got := table.Resources[0].HoldersNote(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
