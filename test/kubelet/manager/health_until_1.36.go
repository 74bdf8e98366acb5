//go:build kubelet1.31 || kubelet1.34 || kubelet1.35 || kubelet1.36

package main

import v1 "k8s.io/api/core/v1"

func (k *kubelet) updateStatus(pod *v1.Pod, status *v1.PodStatus) {
	k.devices.UpdateAllocatedResourcesStatus(pod, status)
}
