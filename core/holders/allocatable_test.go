package holders

import (
	"maps"
	"testing"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Verifies that a resource that kubelet lists several times, once for each NUMA node, has
// all its devices, and that a kubelet that is away is an error.
func TestAllocatable(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	k.devices = []*podresourcesv1.ContainerDevices{
		{ResourceName: gpu, DeviceIds: []string{"a"}}, {ResourceName: "example.com/nic", DeviceIds: []string{"n"}}, {ResourceName: gpu, DeviceIds: []string{"a", "b"}},
	}
	got, err := b.Allocatable(t.Context())
	if err != nil || len(got) != 2 || !maps.Equal(got[gpu], map[string]bool{"a": true, "b": true}) {
		t.Errorf("%v, %v", got, err)
	}
	k.absent = true
	if _, err := b.Allocatable(t.Context()); err == nil {
		t.Error("without kubelet there is no error")
	}
}
