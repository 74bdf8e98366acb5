//go:build kubelet1.35 || kubelet1.36

package main

import (
	"context"
	_ "unsafe" // go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// newManagerImpl is as in release_1.37.go.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(logger klog.Logger, socketPath string, topology []numaNode, topologyAffinityStore topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newDeviceManager(log klog.Logger, socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(log, socket, nodes, store)
}

func (k *kubelet) addHints() { k.topology.AddHintProvider(k.log, k.devices) }

func (k *kubelet) startManager(containers containermap.ContainerMap, ids map[string]sets.Empty) error {
	return k.devices.Start(k.log, k.activePods, &k.sources, containers, ids)
}

func (k *kubelet) stopManager() error { return k.devices.Stop(k.log) }

func (k *kubelet) runOptions(ctx context.Context, pod *v1.Pod, c *v1.Container) (*devicemanager.DeviceRunContainerOptions, error) {
	return k.devices.GetDeviceRunContainerOptions(ctx, pod, c)
}

func runWatcher(ctx context.Context, watcher pluginmanager.PluginManager, ready config.SourcesReady) {
	watcher.Run(ctx, ready, ctx.Done())
}
