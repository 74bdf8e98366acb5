package kubelettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// podResourcesServer serves the pod-resources API from the stand-in's allocations.
type podResourcesServer struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	kubelet *Kubelet
}

// List returns every pod that has devices or was admitted without.
func (s *podResourcesServer) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	k := s.kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	response := &podresourcesapi.ListPodResourcesResponse{}
	for _, pod := range k.listed() {
		response.PodResources = append(response.PodResources, k.podResources(pod))
	}
	return response, nil
}

// Get returns one pod, and fails for one without devices.
func (s *podResourcesServer) Get(_ context.Context, r *podresourcesapi.GetPodResourcesRequest) (*podresourcesapi.GetPodResourcesResponse, error) {
	k := s.kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pod := range k.listed() {
		namespace, name := podName(pod)
		if namespace == r.GetPodNamespace() && name == r.GetPodName() {
			return &podresourcesapi.GetPodResourcesResponse{PodResources: k.podResources(pod)}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
}

// GetAllocatableResources returns the healthy devices.
func (s *podResourcesServer) GetAllocatableResources(context.Context, *podresourcesapi.AllocatableResourcesRequest) (*podresourcesapi.AllocatableResourcesResponse, error) {
	k := s.kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	response := &podresourcesapi.AllocatableResourcesResponse{}
	for _, name := range slices.Sorted(maps.Keys(k.manager.resources)) {
		r := k.manager.resources[name]
		for _, id := range slices.Sorted(maps.Keys(r.healthy)) {
			response.Devices = append(response.Devices, containerDevices(name, id, numaNodes(r.devices[id]))...)
		}
	}
	return response, nil
}

// listed are the pods that have anything, sorted; mu is held.
func (k *Kubelet) listed() []string {
	pods := slices.AppendSeq(slices.Collect(maps.Keys(k.pods)), maps.Keys(k.claims))
	slices.Sort(pods)
	return slices.Compact(pods)
}

// podResources is one pod's entry; mu is held.
func (k *Kubelet) podResources(pod string) *podresourcesapi.PodResources {
	namespace, name := podName(pod)
	out := &podresourcesapi.PodResources{Name: name, Namespace: namespace}
	for _, container := range slices.Sorted(maps.Keys(k.pods[pod])) {
		c := &podresourcesapi.ContainerResources{Name: container}
		for _, resource := range slices.Sorted(maps.Keys(k.pods[pod][container])) {
			a := k.pods[pod][container][resource]
			for _, id := range a.devices {
				c.Devices = append(c.Devices, containerDevices(resource, id, a.numa[id])...)
			}
		}
		out.Containers = append(out.Containers, c)
	}
	if claims := k.dynamicResources(pod); claims != nil {
		out.Containers = append(out.Containers, &podresourcesapi.ContainerResources{Name: "claims", DynamicResources: claims})
	}
	return out
}

// containerDevices returns one entry for each NUMA node of the device, as kubelet does.
func containerDevices(resource, id string, nodes []int) []*podresourcesapi.ContainerDevices {
	if len(nodes) == 0 {
		return []*podresourcesapi.ContainerDevices{{ResourceName: resource, DeviceIds: []string{id}}}
	}
	var entries []*podresourcesapi.ContainerDevices
	for _, node := range nodes {
		entries = append(entries, &podresourcesapi.ContainerDevices{
			ResourceName: resource, DeviceIds: []string{id},
			Topology: &podresourcesapi.TopologyInfo{Nodes: []*podresourcesapi.NUMANode{{ID: int64(node)}}},
		})
	}
	return entries
}

// podName splits namespace/name; a name alone is in namespace "default".
func podName(pod string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		return namespace, name
	}
	return "default", pod
}
