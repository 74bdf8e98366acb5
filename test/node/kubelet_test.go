package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// settle makes sure that kubelet runs.
func (n *node) settle() {
	n.Helper()
	if _, err := healthyUnits(context.Background(), n.kubelet); err != nil {
		n.restartKubelet("stop")
	}
}

// restartKubelet ends kubelet with "stop" or "kill", starts it and waits until it
// answers.
func (n *node) restartKubelet(how string) {
	n.Helper()
	n.service(how, "kubelet")
	n.service("start", "kubelet")
	n.waitKubelet()
}

// waitKubelet waits until a kubelet that was started answers.
func (n *node) waitKubelet() {
	n.Helper()
	n.eventually("kubelet answers", func() bool {
		_, err := healthyUnits(context.Background(), n.kubelet)
		return err == nil
	})
}

// wantRegistered waits until kubelet's device manager has that many healthy units,
// and returns how long it took.
func (n *node) wantRegistered(resource string, units int) time.Duration {
	n.Helper()
	return n.eventually("kubelet has the units of "+resource, func() bool {
		have, err := healthyUnits(context.Background(), n.kubelet)
		return err == nil && have[resource] == int64(units)
	})
}

// containers are what tells whether a pod's containers were left alone.
func containers(pod *v1.Pod) map[string]int32 {
	ids := map[string]int32{}
	for _, c := range pod.Status.ContainerStatuses {
		ids[c.ContainerID] = c.RestartCount
	}
	return ids
}
