package kubelet

import (
	"fmt"
	"maps"
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
	n.specsHeld = true
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

// TestPreferredMesh verifies that on a mesh that is no hierarchy (a ring of NVLink over
// eight GPUs) pods of two, four and two get GPUs that are next to each other, each on
// one NUMA node.
func TestPreferredMesh(t *testing.T) {
	n := linked(t, map[string]any{"topology": "ring", "kind": "nvlink", "count": 2})
	for _, c := range []struct {
		pod  string
		size int64
		want []int
	}{
		{"two", 2, []int{0, 1}}, // GPU 7 and 0 are neighbours, too, but not on one node
		{"four", 4, []int{4, 5, 6, 7}},
		{"another", 2, []int{2, 3}},
	} {
		if got := n.numbers(n.admit(c.pod, gpu, c.size), "c"); !slices.Equal(got, c.want) {
			t.Errorf("pod %s has the GPUs %v, want %v", c.pod, got, c.want)
		}
	}
}

// TestPreferredSwitch verifies that where all links are alike, the devices of a pod are
// of one NUMA node, and that kubelet is not kept from giving a pod all that is left.
func TestPreferredSwitch(t *testing.T) {
	n := linked(t, map[string]any{"topology": "all-to-all", "kind": "nvswitch", "count": 18})
	one := n.numbers(n.admit("one", gpu, 1), "c")
	four := n.numbers(n.admit("four", gpu, 4), "c")
	if len(one) != 1 || one[0] >= 4 || !slices.Equal(four, []int{4, 5, 6, 7}) {
		t.Errorf("a pod of one has %v, one of four %v; want four of the other NUMA node", one, four)
	}
	if rest := n.numbers(n.admit("rest", gpu, 3), "c"); len(rest) != 3 {
		t.Errorf("the last pod has %v, want what was left", rest)
	}
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

// TestPreferredPolicy verifies that replicas are of different devices, and with the
// policy pack of as few as can be.
func TestPreferredPolicy(t *testing.T) {
	for policy, want := range map[string]int{"best-links": 4, "pack": 1} {
		t.Run(policy, func(t *testing.T) {
			n := newNode(t, realkubelet.Options{Policy: realkubelet.PolicyNone})
			n.startKubelet()
			config, unlimited := mock{Count: 4}.config(n), 0
			config.Resources = []agent.Resource{{
				Name: gpu, Replicas: 8, MaxReplicasPerContainer: &unlimited, Allocation: &agent.Allocation{Policy: policy},
			}}
			n.configure(config)
			n.startAgent()
			n.wantCounts(gpu, 32, 32)
			n.specsHeld = true
			for i := range 2 {
				devices := map[string]bool{}
				for _, id := range n.held(n.admit(fmt.Sprintf("pod-%d", i), gpu, 4), gpu) {
					device, _, _ := strings.Cut(id, "::")
					devices[device] = true
				}
				if len(devices) != want {
					t.Errorf("four replicas are of %d devices, want %d", len(devices), want)
				}
			}
		})
	}
}

// TestPreferredPartitions verifies that kubelet gives pods partitions of one GPU each,
// among those of the NUMA node that its own policy wants: three, then twice eight of
// GPUs that are whole, four of the first GPU, and the last eight of that node.
func TestPreferredPartitions(t *testing.T) {
	m := startAMD(t, "")
	m.specsHeld = true
	devices, err := m.agent.Devices(m.soon())
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for i, size := range []int64{3, 8, 8, 4, 8} {
		gpus := map[string]bool{}
		for _, id := range m.held(m.admit(fmt.Sprintf("pod-%d", i), amdCPX, size), amdCPX) {
			gpus[devices[id].PCIBusID] = true
		}
		if len(gpus) != 1 {
			t.Fatalf("%d partitions are of the GPUs %v, want one", size, gpus)
		}
		used = slices.AppendSeq(used, maps.Keys(gpus))
	}
	if used[3] != used[0] {
		t.Errorf("the pods have partitions of the GPUs %v; want those of the first one and the fourth of the same", used)
	}
}
