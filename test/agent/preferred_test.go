package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that pods get partitions with the best links such that GPUs remain whole:
// three and then two of the GPU that lacks a partition anyway, and seven times eight of
// one of the others.
func TestPreferredPartitions(t *testing.T) {
	n := startAMD(t, amdtree.NewMI300X("CPX", "NPS4"), mixed, "", amdCPX, 63)
	parents := func(ids []string) []string {
		var gpus []string
		for _, id := range ids {
			gpus = append(gpus, n.device(id).Parent)
		}
		slices.Sort(gpus)
		return slices.Compact(gpus)
	}
	three := parents(n.allocate("three", amdCPX, 3))
	two := parents(n.allocate("two", amdCPX, 2))
	if len(three) != 1 || !slices.Equal(three, two) {
		t.Errorf("three partitions are of %v, two more of %v; want all of one GPU", three, two)
	}
	for i := range 7 {
		if eight := parents(n.allocate(fmt.Sprintf("eight-%d", i), amdCPX, 8)); len(eight) != 1 {
			t.Fatalf("eight partitions are of %v; want a whole GPU", eight)
		}
	}
	n.wantMetrics(`accelmux_preferred_allocations_total{method="hierarchy",resource="amd.com/cpx_nps4"} 9`,
		`accelmux_preferred_allocation_duration_seconds_count 9`)
}

// Verifies that the GPUs of a pod are of one hive as long as a hive has enough, that
// a pair is taken from where it leaves a whole hive, and that a GPU which becomes
// faulty is not among them.
func TestPreferredHives(t *testing.T) {
	n := startAMD(t, amdtree.NewMI210(), mixed, quickCounters, amdGPU, 8)
	hive := func(ids []string) []int {
		var hives []int
		for i := range n.machine.GPUs {
			if slices.Contains(ids, n.id(i)) {
				hives = append(hives, i/4)
			}
		}
		return slices.Compact(hives)
	}
	pair := hive(n.allocate("pair", amdGPU, 2))
	four := hive(n.allocate("four", amdGPU, 4))
	if len(pair) != 1 || len(four) != 1 || pair[0] == four[0] {
		t.Errorf("two GPUs are of the hives %v, four of %v; want one, and the other", pair, four)
	}
	n.kubelet.Free("four")
	// Two are left of the pair's hive, and three of the other.
	faulty := 4 * four[0]
	n.raise(faulty, "umc.ue")
	n.wantCounts(amdGPU, 8, 7)
	if three := n.allocate("three", amdGPU, 3); len(hive(three)) != 1 || slices.Contains(three, n.id(faulty)) {
		t.Errorf("three GPUs are %v, of the hives %v; want those of one hive without the faulty one", three, hive(three))
	}
}

// policies is a mock machine of two hives; POLICY is the test's.
const policies = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 8, numaNodes: 2, links: {topology: hive, size: 4, kind: nvlink, count: 6}}
    resources:
      - {name: example.com/shared, selector: 'device.attributes["mock"].index < 2', replicas: 8, maxReplicasPerContainer: 0, allocation: {policy: POLICY}}
      - {name: example.com/gpu}
`

// Verifies that a resource's policy can be changed while pods run, without a dip:
// replicas for one pod are of both devices, then of one, then of both again.
func TestPreferredPolicies(t *testing.T) {
	const shared = "example.com/shared"
	n := startNode(t, 6, strings.Replace(policies, "POLICY", "best-links", 1))
	n.wantCounts(shared, 16, 16)
	devices := func(pod string) int {
		seen := map[string]bool{}
		for _, unit := range n.allocate(pod, shared, 4) {
			device, _, _ := deviceplugin.SplitUnitID(unit)
			seen[device] = true
		}
		n.kubelet.Free(pod)
		return len(seen)
	}
	if got := devices("before"); got != 2 {
		t.Errorf("four replicas are of %d devices by best-links, want 2", got)
	}
	n.mark(shared)
	for _, c := range []struct {
		policy string
		want   int
	}{{"pack", 1}, {"spread", 2}} {
		n.configure(strings.Replace(policies, "POLICY", c.policy, 1))
		n.eventually(c.policy, func() bool { return devices(c.policy) == c.want })
	}
	n.wantNoDip(shared, 16)
}
