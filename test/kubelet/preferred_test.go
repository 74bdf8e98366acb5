package kubelet

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// linked is a node with eight GPUs that have these links, on two NUMA nodes that
// kubelet's own policy does not look at: what a pod gets is what the agent prefers.
func linked(t *testing.T, links map[string]any, edit ...func(*agent.Config)) *node {
	t.Helper()
	n := newNode(t, realkubelet.Options{Policy: realkubelet.PolicyNone})
	n.startKubelet()
	config := mock{Count: 8, NUMANodes: 2}.config(n)
	config.Backend.Settings.(map[string]any)["links"] = links
	for _, e := range edit {
		e(&config)
	}
	n.configure(config)
	n.startAgent()
	n.wantCounts(gpu, 8, 8)
	return n
}

// numbers are those of the GPUs that a container has, sorted.
func (n *node) numbers(pod *v1.Pod, container string) []int {
	n.Helper()
	var numbers []int
	for _, d := range n.kubelet.Devices(pod, container, gpu) {
		i := strings.LastIndexByte(d.ID, '-')
		number, err := strconv.Atoi(d.ID[i+1:])
		if err != nil {
			n.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers
}

// TestPreferredInit verifies that a container gets what its pod's init container had,
// and the best devices beside these.
func TestPreferredInit(t *testing.T) {
	n := linked(t, map[string]any{"topology": "hive", "size": 4, "kind": "xgmi"})
	n.admit("before", gpu, 2) // so that the pod is not given what comes first anyway
	pod := realkubelet.NewPod("pod", map[string]int64{gpu: 3})
	init := realkubelet.NewPod("init", map[string]int64{gpu: 1}).Spec.Containers[0]
	init.Name = "init"
	pod.Spec.InitContainers = []v1.Container{init}
	if err := n.kubelet.Admit(n.soon(), pod); err != nil {
		t.Fatal(err)
	}
	had, got := n.numbers(pod, "init"), n.numbers(pod, "c")
	if len(had) != 1 || len(got) != 3 || !slices.Contains(got, had[0]) {
		t.Errorf("the init container has %v, the other one %v; want three with that one", had, got)
	}
	// The pair that was left of the first hive is the init container's best choice.
	if had[0] >= 4 || got[0] >= 4 || got[1] >= 4 {
		t.Errorf("the containers have %v and %v; want the two of the hive that is in use, and one more", had, got)
	}
}
