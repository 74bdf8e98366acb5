package agent

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that the GPUs of a pod are of one hive as long as a hive has enough, that
// a pair is taken from where it leaves a whole hive, and that a GPU which becomes
// faulty is not among them.
func TestPreferredHives(t *testing.T) {
	t.Parallel()
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
