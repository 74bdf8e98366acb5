//go:build kubelet1.26 || kubelet1.28 || kubelet1.31 || kubelet1.34 || kubelet1.35 || kubelet1.36

package main

import (
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

type numaNode = cadvisorapi.Node

func newTopologyManager(_ klog.Logger, nodes []numaNode, policy, scope string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(nodes, policy, scope, nil)
}

func (k *kubelet) capacity() (capacity, allocatable v1.ResourceList) {
	capacity, allocatable, _ = k.devices.GetCapacity()
	return capacity, allocatable
}

func (k *kubelet) allocatable() devicemanager.ResourceDeviceInstances {
	return k.devices.GetAllocatableDevices()
}

func (k *kubelet) addContainer(pod *v1.Pod, c *v1.Container, id string) {
	k.topology.AddContainer(pod, c, id)
}

// removeContainer has no error to tell of: the topology manager's only one is for an
// ID that it does not know, and it hides that one.
func (k *kubelet) removeContainer(id string) { _ = k.topology.RemoveContainer(id) }

func (d devicesOf) UpdateAllocatedDevices() { d.m.UpdateAllocatedDevices() }

func (d devicesOf) GetAllocatableDevices() []*podresourcesv1.ContainerDevices {
	return containerDevices(d.m.GetAllocatableDevices())
}

func (nothing) GetCPUs(string, string) []int64                             { return nil }
func (nothing) GetAllocatableCPUs() []int64                                { return nil }
func (nothing) GetMemory(string, string) []*podresourcesv1.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory() []*podresourcesv1.ContainerMemory    { return nil }
