package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies what the links of a graph are: of each pair the lesser of the best weights of
// both ways, in any order of the lists, with repetitions, strangers and the device itself
// among them.
func TestGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "devices")
		devices := make([]*inventory.Device, n)
		best := map[[2]int]int64{}
		for i := range devices {
			devices[i] = &inventory.Device{Key: inventory.Key{Backend: "b", ID: fmt.Sprint(i)}}
			for _, peer := range rapid.SliceOf(rapid.IntRange(0, n)).Draw(t, "peers") {
				l := inventory.Link{Peer: fmt.Sprint(peer), Kind: rapid.SampledFrom([]string{"nvlink", "pcie_switch", "other"}).Draw(t, "kind")}
				devices[i].Links = append(devices[i].Links, l)
				best[[2]int{i, peer}] = max(best[[2]int{i, peer}], Weight(l))
			}
		}
		var want []edge
		for a := range n {
			for b := a + 1; b < n; b++ {
				if w := min(best[[2]int{a, b}], best[[2]int{b, a}]); w > 0 {
					want = append(want, edge{int32(a), int32(b), w}) //nolint:gosec // 7 at most
				}
			}
		}
		slices.SortStableFunc(want, func(a, b edge) int { return int(b.weight - a.weight) })
		g := newGraph(devices)
		if !slices.Equal(g.edges, want) {
			t.Fatalf("%v, want %v", g.edges, want)
		}
		for _, e := range want {
			if g.weight(e.a, e.b) != e.weight || g.weight(e.b, e.a) != e.weight {
				t.Fatalf("%v: %d and %d", e, g.weight(e.a, e.b), g.weight(e.b, e.a))
			}
		}
	})
}
