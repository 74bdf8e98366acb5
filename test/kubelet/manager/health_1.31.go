//go:build !kubelet1.26 && !kubelet1.28

package main

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// podHealth is nil where the gate is off by default.
func (k *kubelet) podHealth(pod *v1.Pod) map[string]string {
	if !utilfeature.DefaultFeatureGate.Enabled(features.ResourceHealthStatus) {
		return nil
	}
	status := &v1.PodStatus{}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: c.Name})
	}
	k.updateStatus(pod, status)
	k.claims.addStatus(k.log, pod, status)
	out := map[string]string{}
	for _, c := range status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			for _, h := range r.Resources {
				out[string(h.ResourceID)] = string(h.Health)
			}
		}
	}
	return out
}
