package deviceplugin

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// setUp is a device that is set up for so many containers.
func setUp(id, class string, containers uint32) resource.Device {
	return resource.Device{Device: &inventory.Device{Key: inventory.Key{Backend: "a", ID: id}, Class: class, PreparedFor: containers}}
}

// TestPreparedNotes verifies that a resource whose replicas differ from what its devices
// are set up for has one problem, whatever the number of devices.
func TestPreparedNotes(t *testing.T) {
	const rest = ": make replicas of the resource and the backend's settings say the same"
	for name, tc := range map[string]struct {
		replicas int
		devices  []resource.Device
		want     []string
	}{
		"not set up": {2, []resource.Device{setUp("1", "gpu", 0)}, nil},
		"equal":      {2, []resource.Device{setUp("1", "gpu", 2), setUp("2", "gpu", 0)}, nil},
		"replicas forgotten": {1, []resource.Device{setUp("1", "gpu", 4)},
			[]string{"replicas is 1, but backend a has set up 1 of its devices of class gpu for 4 containers each" + rest}},
		"several": {2, []resource.Device{setUp("1", "npu", 3), setUp("2", "gpu", 5), setUp("3", "gpu", 4)},
			[]string{"replicas is 2, but backend a has set up 1 of its devices of class gpu for 4 containers each, " +
				"backend a has set up 1 of its devices of class gpu for 5 containers each, " +
				"backend a has set up 1 of its devices of class npu for 3 containers each" + rest}},
	} {
		r := &resource.Resource{Resource: config.Resource{Replicas: tc.replicas}, Devices: tc.devices}
		if got := newView(r, allNames{}, nil).notes; !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
