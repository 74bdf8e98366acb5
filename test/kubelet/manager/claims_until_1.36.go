//go:build kubelet1.34 || kubelet1.35 || kubelet1.36

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func (c claims) addStatus(_ klog.Logger, pod *v1.Pod, status *v1.PodStatus) {
	c.UpdateAllocatedResourcesStatus(pod, status)
}

func (c claims) GetDynamicResources(pod *v1.Pod, container *v1.Container) []*podresourcesv1.DynamicResource {
	return c.resources(klog.Background(), pod, container)
}
