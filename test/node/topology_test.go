package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Kubelet has the policy single-numa-node, and the node four devices on each of two
// NUMA nodes: a pod's devices come from one of them, whatever its size, and a pod
// that would need both is refused.
func TestDevicesOfOneNUMANode(t *testing.T) {
	n := begin(t)
	n.configure("topologyManagerPolicy: single-numa-node\n")
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	of := map[string]int{}
	known, err := devices(n.soon())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range known {
		of[d.ID] = d.NUMANodes[0]
	}
	// 1 and 3 fill one node only if the second pod looks at what is left there.
	for _, pod := range []struct {
		name   string
		amount int64
	}{{"one", 1}, {"four", 4}, {"three", 3}} {
		n.start(pod.name, gpu, pod.amount)
		ids := n.held(pod.name, gpu)
		for _, id := range ids {
			if of[id] != of[ids[0]] {
				t.Errorf("pod %s has %v, of several NUMA nodes", pod.name, ids)
			}
		}
	}
	n.delete("one")
	n.delete("four")
	// Five are free, four of them on one node.
	n.create(newPod("five", gpu, 5))
	n.untilPod("five", "refused for its topology", func(pod *v1.Pod) bool {
		return pod.Status.Phase == v1.PodFailed && pod.Status.Reason == "TopologyAffinityError"
	})
}
