package kubelet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestHealthDownAndUp verifies that a fault takes one device out of allocatable
// and into the status of the pod that holds it, and that it comes back when the
// backend sees it healthy again. Capacity stays all the time.
func TestHealthDownAndUp(t *testing.T) {
	n := start(t, mock{Count: 4}, 4)
	pod := n.admit("holder", gpu, 1)
	sick := n.held(pod, gpu)[0]
	record := n.kubelet.Record(gpu, time.Millisecond)
	n.play(fault(sick, "too-hot", "self"))
	t.Logf("a fault is seen after %v", n.wantCounts(gpu, 4, 3).Round(time.Millisecond))
	n.wantPodHealth(pod, sick, v1.ResourceHealthStatusUnhealthy)
	n.play()
	t.Logf("its end is seen after %v", n.wantCounts(gpu, 4, 4).Round(time.Millisecond))
	n.wantPodHealth(pod, sick, v1.ResourceHealthStatusHealthy)
	_, changes := record.Stop()
	for _, c := range changes {
		if c.Counts.Capacity != 4 || c.Counts.Allocatable < 3 {
			t.Errorf("after %v: %v; want capacity 4 and at most one device down", c.After, c.Counts)
		}
	}
}

// wantPodHealth wants that health of a device in the status of a pod, in a test of its
// own: not every kubelet writes it.
func (n *node) wantPodHealth(pod *v1.Pod, id string, want v1.ResourceHealthStatus) {
	n.Helper()
	n.Run("pod status "+string(want), func(t *testing.T) {
		realkubelet.HealthStatus.Need(t, n.kubelet.Release())
		if got := n.kubelet.PodHealth(pod)[id]; got != want {
			t.Errorf("health of %s in the pod's status is %q; want %s", id, got, want)
		}
	})
}
