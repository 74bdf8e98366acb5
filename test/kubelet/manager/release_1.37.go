//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31 && !kubelet1.34 && !kubelet1.35 && !kubelet1.36

package main

import (
	"context"
	_ "unsafe" // go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

type numaNode = cadvisorapi.Node

// newManagerImpl is the device manager's own constructor. The exported one fixes
// the registration socket to /var/lib/kubelet, which a test must not touch.
// The empty assembly file beside this one lets the declaration stand without a
// body.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(logger klog.Logger, socketPath string, topology []numaNode, topologyAffinityStore topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newDeviceManager(log klog.Logger, socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(log, socket, nodes, store)
}

func newTopologyManager(log klog.Logger, nodes []numaNode, policy, scope string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(log, nodes, policy, scope, nil)
}

func (k *kubelet) addHints() { k.topology.AddHintProvider(k.log, k.devices) }

func (k *kubelet) startManager(containers containermap.ContainerMap, ids map[string]sets.Empty) error {
	return k.devices.Start(k.log, k.activePods, &k.sources, containers, ids)
}

func (k *kubelet) stopManager() error { return k.devices.Stop(k.log) }

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

func (k *kubelet) runOptions(ctx context.Context, pod *v1.Pod, c *v1.Container) (*devicemanager.DeviceRunContainerOptions, error) {
	return k.devices.GetDeviceRunContainerOptions(ctx, pod, c)
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

func runWatcher(ctx context.Context, watcher pluginmanager.PluginManager, ready config.SourcesReady) {
	watcher.Run(ctx, ready, ctx.Done())
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
