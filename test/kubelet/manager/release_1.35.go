//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31 && !kubelet1.34

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
