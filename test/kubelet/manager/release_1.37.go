//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31 && !kubelet1.34 && !kubelet1.35 && !kubelet1.36

package main

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type numaNode = cadvisorapi.Node

func newTopologyManager(log klog.Logger, nodes []numaNode, policy, scope string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(log, nodes, policy, scope, nil)
}

func (k *kubelet) capacity() (capacity, allocatable v1.ResourceList) {
	capacity, allocatable, _ = k.devices.GetCapacity(k.log)
	return capacity, allocatable
}

func (k *kubelet) allocatable() devicemanager.ResourceDeviceInstances {
	return k.devices.GetAllocatableDevices(k.log)
}

func (k *kubelet) admit(ctx context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return k.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
}

func (k *kubelet) addContainer(pod *v1.Pod, c *v1.Container, id string) {
	k.topology.AddContainer(k.log, pod, c, id)
}

// removeContainer has no error to tell of: the topology manager's only one is for an
// ID that it does not know, and it hides that one.
func (k *kubelet) removeContainer(id string) { _ = k.topology.RemoveContainer(k.log, id) }

func (k *kubelet) updateStatus(pod *v1.Pod, status *v1.PodStatus) {
	k.devices.UpdateAllocatedResourcesStatus(k.log, pod, status)
}

func newPodResources(ctx context.Context, k *kubelet) *grpc.Server {
	providers := podresources.PodResourcesProviders{
		Pods: podsOf{k}, Devices: devicesOf{k.devices}, Cpus: nothing{}, Memory: nothing{}, DynamicResources: k.claims,
	}
	server := grpc.NewServer(apisgrpc.WithRateLimiter(ctx, "podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens))
	podresourcesv1alpha1.RegisterPodResourcesListerServer(server, podresources.NewV1alpha1PodResourcesServer(providers))
	podresourcesv1.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(ctx, providers))
	return server
}

func (d devicesOf) UpdateAllocatedDevices(log klog.Logger) { d.m.UpdateAllocatedDevices(log) }

func (d devicesOf) GetAllocatableDevices(log klog.Logger) []*podresourcesv1.ContainerDevices {
	return containerDevices(d.m.GetAllocatableDevices(log))
}

func (nothing) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (nothing) GetPodCPUs(string) []int64              { return nil }
func (nothing) GetAllocatableCPUs() []int64            { return nil }

func (nothing) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.ContainerMemory {
	return nil
}

func (nothing) GetPodMemory(klog.Logger, string) []*podresourcesv1.ContainerMemory { return nil }

func (nothing) GetAllocatableMemory(klog.Logger) []*podresourcesv1.ContainerMemory { return nil }

func (c claims) GetDynamicResources(log klog.Logger, pod *v1.Pod, container *v1.Container) []*podresourcesv1.DynamicResource {
	return c.resources(log, pod, container)
}

func (c claims) addStatus(log klog.Logger, pod *v1.Pod, status *v1.PodStatus) {
	c.UpdateAllocatedResourcesStatus(log, pod, status)
}
