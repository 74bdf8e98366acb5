package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/accelmux/accelmux/core/dra/pool"
)

// Verifies that the devices are tried in the order of the pool, also in its eleventh slice, without
// those that are allocated or that the class does not select; and that a claim that does not fit gets
// none.
func TestAllocate(t *testing.T) {
	p := &pool.Pool{}
	for i := range 12 {
		p.Slices = append(p.Slices, resourceslice.Slice{Devices: []resourceapi.Device{{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"odd": {BoolValue: new(i%2 == 1)}},
		}}})
	}
	n := Node{Name: "node", Slices: p.Objects("d.example.com", "node"), Allocated: []structured.DeviceID{structured.MakeDeviceID("d.example.com", "node", "gpu-1")}, Classes: map[string]*resourceapi.DeviceClass{
		"odd": {Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["d.example.com"].odd`}}}}},
	}}
	for count, want := range map[int64][]string{3: {"gpu-3", "gpu-5", "gpu-7"}, 5: {"gpu-3", "gpu-5", "gpu-7", "gpu-9", "gpu-11"}, 6: nil} {
		results, err := n.Allocate(t.Context(), Claim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "odd", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count},
		}}}}})
		var got []string
		for _, r := range results {
			got = append(got, r.Device)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%d devices: %v (-want +got):\n%s", count, err, diff)
		}
	}
}
