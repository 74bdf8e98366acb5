package node

import (
	v1 "k8s.io/api/core/v1"
)

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
