package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestAllocateAligned verifies that the NUMA nodes we report let kubelet's own
// policy single-numa-node decide: two of eight devices come from one node, and
// what no node can give alone is refused.
func TestAllocateAligned(t *testing.T) {
	n := start(t, mock{Count: 8, NUMANodes: 2}, 8)
	for _, name := range []string{"first", "second", "third", "fourth"} {
		pod := n.admit(name, gpu, 2)
		got := n.kubelet.Devices(pod, "c", gpu)
		if len(got) != 2 || len(got[0].NUMANodes) != 1 || !slices.Equal(got[0].NUMANodes, got[1].NUMANodes) {
			t.Errorf("pod %s was given %v; want two devices of one NUMA node", name, got)
		}
		n.kubelet.RemovePod(pod)
	}
	wantRejected(t, n, "five", 5, realkubelet.ReasonTopologyAffinity)
	// With three of each node in use, the two that are left are not of one node.
	n.admit("three", gpu, 3)
	n.admit("another-three", gpu, 3)
	wantRejected(t, n, "two-across", 2, realkubelet.ReasonTopologyAffinity)
}

// TestPreferredAllocation verifies that kubelet asks for our preference and
// follows it: without any topology policy, where kubelet by itself would pick at
// random, four of 32 devices come from one NUMA node, every time the same.
func TestPreferredAllocation(t *testing.T) {
	n := newNode(t, realkubelet.Options{Policy: realkubelet.PolicyNone})
	n.startKubelet()
	n.configure(mock{Count: 32, NUMANodes: 2}.config(n))
	n.startAgent()
	n.wantCounts(gpu, 32, 32)
	var before []string
	for i := range 10 {
		// Each a pod of its own: one that comes back keeps what it had.
		pod := n.admit(fmt.Sprintf("picky-%d", i), gpu, 4)
		devices := n.kubelet.Devices(pod, "c", gpu)
		for _, d := range devices {
			if !slices.Equal(d.NUMANodes, devices[0].NUMANodes) {
				t.Fatalf("given %v; want four devices of one NUMA node", devices)
			}
		}
		held := n.held(pod, gpu)
		if before != nil && !slices.Equal(before, held) {
			t.Fatalf("given %v, and %v the time before; want the same from the same choice", held, before)
		}
		before = held
		n.kubelet.RemovePod(pod)
	}
}

// wantRejected admits a pod that must be refused for the reason.
func wantRejected(t *testing.T, n *node, name string, amount int64, reason string) {
	t.Helper()
	err := n.kubelet.Admit(n.soon(), realkubelet.NewPod(name, map[string]int64{gpu: amount}))
	var rejected *realkubelet.AdmissionError
	if !errors.As(err, &rejected) || rejected.Reason != reason {
		t.Errorf("%d devices for pod %s: %v; want it rejected with %s", amount, name, err, reason)
	}
}
