package podresources

import (
	"maps"
	"testing"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Verifies that a resource that kubelet lists several times, once for each NUMA node, has
// all its devices, and that a kubelet that is away is an error.
func TestAllocatable(t *testing.T) {
	d := newDouble()
	k := New(Options{Lister: d})
	d.devices = []*podresourcesv1.ContainerDevices{
		{ResourceName: gpu, DeviceIds: []string{"a"}}, {ResourceName: "example.com/nic", DeviceIds: []string{"n"}}, {ResourceName: gpu, DeviceIds: []string{"a", "b"}},
	}
	got, err := k.Allocatable(t.Context())
	if err != nil || len(got) != 2 || !maps.Equal(got[gpu], map[string]bool{"a": true, "b": true}) {
		t.Errorf("%v, %v", got, err)
	}
	d.absent = true
	if _, err := k.Allocatable(t.Context()); err == nil {
		t.Error("without kubelet there is no error")
	}
}
