package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verifies that with dra.evict a fault that reaches the holders of a device has their pods
// deleted, and a lighter one does not.
func TestFaultEvictsPods(t *testing.T) {
	n := begin(t)
	n.installClaims(func(backend map[string]any) { backend["dra"] = values{"evict": true} })
	lost, light := n.startClaiming("lost", 1), n.startClaiming("light", 1)
	n.play(fmt.Sprintf(`{devices: {%s: {fault: {code: xid-79, reach: holders}}, %s: {fault: {code: xid-48}}}}`,
		n.wantClaimed("lost")[0], n.wantClaimed("light")[0]))
	n.eventually("the pod with the lost device is evicted", func() bool {
		_, err := client.CoreV1().Pods(pods).Get(context.Background(), lost.Name, metav1.GetOptions{})
		return err != nil
	})
	n.wantClaimHealth("light", n.allocated("light")[0], v1.ResourceHealthStatusUnhealthy)
	n.wantUntouched(light)
}

// wantTaint waits until a device has our taint with that value and effect, or none if the effect
// is "".
func (n *node) wantTaint(device, value string, effect resourcev1.DeviceTaintEffect) {
	n.Helper()
	n.eventually(fmt.Sprintf("the taint of %s is %q with %q", device, value, effect), func() bool {
		published, err := publishedDevices(context.Background())
		if err != nil || published == nil {
			return false
		}
		taints := published[device].Taints
		if effect == "" {
			return len(taints) == 0
		}
		return len(taints) == 1 && taints[0].Key == "accelmux.io/unhealthy" && taints[0].Value == value && taints[0].Effect == effect
	})
}

// wantUnschedulable waits until the scheduler has found no place for a pod.
func (n *node) wantUnschedulable(pod string) {
	n.Helper()
	n.untilPod(pod, "found not to fit", func(pod *v1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
		})
	})
}

// wantClaimHealth waits until the pod's status gives the health of a device of its claim.
func (n *node) wantClaimHealth(pod, device string, health v1.ResourceHealthStatus) {
	n.Helper()
	n.wantHealth(pod, device, health, func(name v1.ResourceName, id v1.ResourceID) bool {
		return name == "claim:gpu" && strings.Contains(string(id), "="+device+"::")
	})
}
