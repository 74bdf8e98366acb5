//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// claims is kubelet's DRA manager. Without an API server it is as in a kubelet that has none.
type claims struct{ *dra.Manager }

// startClaims makes the manager, which deletes the node's slices when it starts.
func (k *kubelet) startClaims(ctx context.Context) error {
	var client kubernetes.Interface
	if k.opts.APIServer != "" {
		// Kubelet's own rates.
		own, err := kubernetes.NewForConfig(&rest.Config{Host: k.opts.APIServer, QPS: 50, Burst: 100})
		if err != nil {
			return fmt.Errorf("make client: %w", err)
		}
		client = own
	}
	manager, err := dra.NewManager(k.log, client, k.opts.Dir)
	if err != nil {
		return fmt.Errorf("make DRA manager: %w", err)
	}
	k.claims = claims{manager}
	return manager.Start(ctx, k.activePods, getNode(func(ctx context.Context) (*v1.Node, error) {
		return client.CoreV1().Nodes().Get(ctx, k.opts.NodeName, metav1.GetOptions{})
	}), &k.sources)
}

func (k *kubelet) watchDrivers(watcher pluginmanager.PluginManager) {
	watcher.AddHandler(registrationapi.DRAPlugin, k.claims.GetWatcherHandler())
}

// names are the CDI names of a container's claims.
func (c claims) names(pod *v1.Pod, container *v1.Container) ([]string, error) {
	info, err := c.GetResources(pod, container)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range info.CDIDevices {
		names = append(names, d.Name)
	}
	return names, nil
}

// resources is GetDynamicResources of kubelet's container manager, but for the shares of devices. As
// there a device of a claim has the CDI names of those before it, too.
func (c claims) resources(log klog.Logger, pod *v1.Pod, container *v1.Container) []*podresourcesv1.DynamicResource {
	infos, err := c.GetContainerClaimInfos(pod, container)
	if err != nil {
		log.Error(err, "Unable to get container claim info state")
		return nil
	}
	var all []*podresourcesv1.DynamicResource
	for _, info := range infos {
		one := &podresourcesv1.DynamicResource{ClaimName: info.ClaimName, ClaimNamespace: info.Namespace}
		for driver, state := range info.DriverState {
			var names []*podresourcesv1.CDIDevice
			for _, device := range state.Devices {
				for _, name := range device.CDIDeviceIDs {
					names = append(names, &podresourcesv1.CDIDevice{Name: name})
				}
				one.ClaimResources = append(one.ClaimResources, &podresourcesv1.ClaimResource{
					CdiDevices: names, DriverName: driver, PoolName: device.PoolName, DeviceName: device.DeviceName,
				})
			}
		}
		all = append(all, one)
	}
	return all
}
