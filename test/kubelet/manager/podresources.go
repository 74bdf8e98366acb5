package main

import (
	v1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// podsOf is kubelet's pods for the pod-resources server.
type podsOf struct{ k *kubelet }

func (p podsOf) GetActivePods() []*v1.Pod { return p.k.activePods() }
func (p podsOf) GetPods() []*v1.Pod       { return p.k.activePods() }

func (p podsOf) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range p.k.activePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// devicesOf turns the device manager's answers into the API's, as kubelet's
// container manager does.
type devicesOf struct{ m *devicemanager.ManagerImpl }

func (d devicesOf) GetDevices(podUID, containerName string) []*podresourcesv1.ContainerDevices {
	return containerDevices(d.m.GetDevices(podUID, containerName))
}

// containerDevices is cm.containerDevicesFromResourceDeviceInstances: one entry
// for each NUMA node of a device, one for a device without.
func containerDevices(resources devicemanager.ResourceDeviceInstances) []*podresourcesv1.ContainerDevices {
	var out []*podresourcesv1.ContainerDevices
	for name, devices := range resources {
		for id, device := range devices {
			if device.GetTopology() == nil {
				out = append(out, &podresourcesv1.ContainerDevices{ResourceName: name, DeviceIds: []string{id}})
				continue
			}
			for _, node := range device.GetTopology().GetNodes() {
				out = append(out, &podresourcesv1.ContainerDevices{
					ResourceName: name,
					DeviceIds:    []string{id},
					Topology: &podresourcesv1.TopologyInfo{
						Nodes: []*podresourcesv1.NUMANode{{ID: node.GetID()}},
					},
				})
			}
		}
	}
	return out
}

// nothing stands for the managers of CPUs and memory on a node that has their policies
// at none.
type nothing struct{}
