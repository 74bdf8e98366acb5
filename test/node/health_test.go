package node

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A device that a pod holds fails: allocatable drops and capacity does not, the
// pod's status says which device it is, and no other pod gets it. It recovers, and
// all is as it was; the pod ran all the time.
func TestDeviceFailsAndRecovers(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	pod := n.start("one", gpu, 2)
	failed := n.held("one", gpu)[0]

	n.play(`{devices: {` + failed + `: {fault: {code: xid-79, message: fell off the bus}}}}`)
	took := n.wantCounts(gpu, 8, 7)
	t.Logf("allocatable dropped after %v", took)
	n.wantDeviceHealth("one", gpu, failed, v1.ResourceHealthStatusUnhealthy)
	n.wantEvent("DeviceUnhealthy", "fell off the bus")
	n.start("two", gpu, 5)
	if ids := n.held("two", gpu); slices.Contains(ids, failed) || len(ids) != 5 {
		t.Errorf("with %s unhealthy the pod got %v", failed, ids)
	}

	n.play(`{}`)
	took = n.wantCounts(gpu, 8, 8)
	t.Logf("allocatable was back after %v", took)
	n.wantDeviceHealth("one", gpu, failed, v1.ResourceHealthStatusHealthy)
	n.wantEvent("DeviceRecovered", failed)
	n.wantUntouched(pod)
}

// wantDeviceHealth waits until the pod's status gives a device's health.
func (n *node) wantDeviceHealth(pod, resource, device string, health v1.ResourceHealthStatus) {
	n.Helper()
	n.wantHealth(pod, device, health, func(name v1.ResourceName, id v1.ResourceID) bool {
		return string(name) == resource && string(id) == device
	})
}

// wantHealth waits until the pod's status gives the health of the device for which is returns true.
func (n *node) wantHealth(pod, device string, health v1.ResourceHealthStatus, is func(v1.ResourceName, v1.ResourceID) bool) {
	n.Helper()
	n.untilPod(pod, "aware of "+device+" "+string(health), func(pod *v1.Pod) bool {
		for _, c := range pod.Status.ContainerStatuses {
			for _, s := range c.AllocatedResourcesStatus {
				for _, r := range s.Resources {
					if is(s.Name, r.ResourceID) && r.Health == health {
						return true
					}
				}
			}
		}
		return false
	})
}
