package podresources

import (
	"context"
	"fmt"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Allocatable returns the healthy devices that kubelet has, by resource and ID
// (GetAllocatableResources, which kubelet answers from 1.23 on). Kubelet acts upon nothing
// then, so it may be called at any time.
func (k *Kubelet) Allocatable(ctx context.Context) (map[string]map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timing.Timeout)
	defer cancel()
	devices, err := k.lister.Allocatable(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]bool{}
	for _, d := range devices {
		name := d.GetResourceName()
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		for _, id := range d.GetDeviceIds() {
			all[name][id] = true
		}
	}
	return all, nil
}

// Allocatable makes a connection, as List does.
func (c *client) Allocatable(ctx context.Context) ([]*podresourcesv1.ContainerDevices, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("get allocatable resources at %s: %w", c.socket, err)
	}
	return response.GetDevices(), nil
}
