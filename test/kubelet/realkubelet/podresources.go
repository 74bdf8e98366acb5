package realkubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	criutil "k8s.io/cri-client/pkg/util"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/util"
)

// servePodResources is kubelet's server.ListenAndServePodResources, which ends
// the process on an error and never returns.
func (k *Kubelet) servePodResources(ctx context.Context, s *session) error {
	dir := filepath.Dir(k.PodResourcesSocket())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	endpoint, err := util.LocalEndpoint(dir, podresources.Socket)
	if err != nil {
		return err
	}
	listener, err := criutil.CreateListener(endpoint)
	if err != nil {
		return fmt.Errorf("listen for pod-resources: %w", err)
	}
	providers := podresources.PodResourcesProviders{
		Pods:             podsOf{k},
		Devices:          devicesOf{s.devices},
		Cpus:             nothing{},
		Memory:           nothing{},
		DynamicResources: nothing{},
	}
	s.grpc = grpc.NewServer(apisgrpc.WithRateLimiter(ctx, "podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens))
	podresourcesv1alpha1.RegisterPodResourcesListerServer(s.grpc, podresources.NewV1alpha1PodResourcesServer(providers))
	podresourcesv1.RegisterPodResourcesListerServer(s.grpc, podresources.NewV1PodResourcesServer(ctx, providers))
	s.done.Go(func() {
		if err := s.grpc.Serve(listener); err != nil {
			k.log.Error(err, "Pod-resources server ended")
		}
	})
	return nil
}

// podsOf is kubelet's pods for the pod-resources server.
type podsOf struct{ k *Kubelet }

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

func (d devicesOf) UpdateAllocatedDevices(log klog.Logger) { d.m.UpdateAllocatedDevices(log) }

func (d devicesOf) GetDevices(podUID, containerName string) []*podresourcesv1.ContainerDevices {
	return containerDevices(d.m.GetDevices(podUID, containerName))
}

func (d devicesOf) GetAllocatableDevices(log klog.Logger) []*podresourcesv1.ContainerDevices {
	return containerDevices(d.m.GetAllocatableDevices(log))
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

// nothing stands for the managers of CPUs, memory and claims on a node that has
// their policies at none.
type nothing struct{}

func (nothing) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (nothing) GetPodCPUs(string) []int64              { return nil }
func (nothing) GetAllocatableCPUs() []int64            { return nil }

func (nothing) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.ContainerMemory {
	return nil
}

func (nothing) GetPodMemory(klog.Logger, string) []*podresourcesv1.ContainerMemory { return nil }

func (nothing) GetAllocatableMemory(klog.Logger) []*podresourcesv1.ContainerMemory { return nil }

func (nothing) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}
