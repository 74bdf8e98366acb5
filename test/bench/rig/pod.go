package rig

import (
	"context"
	"fmt"
	"time"
)

// container is that of each pod.
const container = "main"

// Hold gives a pod one unit of the resource, and says which device that is.
func (n *Node) Hold(pod string) (device string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	allocation, err := n.Kubelet.Allocate(ctx, pod, container, n.Resource, 1)
	if err != nil {
		return "", err
	}
	return allocation.Devices[0], nil
}

// Start starts the container of a pod, as often as it is called, and says how long its
// devices take to be ready.
func (n *Node) Start(pod string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	began := time.Now()
	if _, err := n.Kubelet.StartContainer(ctx, pod, container); err != nil {
		return 0, fmt.Errorf("start of the pod %s: %w", pod, err)
	}
	return time.Since(began), nil
}
