package topology

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// TestGraph verifies what a pair counts for: the best direct link and the best path, of
// the lesser direction, in any order of the lists, with repetitions, unknown devices and
// the device itself among them.
func TestGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "devices")
		devices := make([]*inventory.Device, n)
		type way struct {
			from, to int
			direct   bool
		}
		best := map[way]int64{}
		for i := range devices {
			devices[i] = &inventory.Device{Key: inventory.Key{Backend: "b", ID: fmt.Sprint(i)}}
			for _, peer := range rapid.SliceOf(rapid.IntRange(0, n)).Draw(t, "peers") {
				l := inventory.Link{Peer: fmt.Sprint(peer), Kind: rapid.SampledFrom([]string{"nvlink", "pcie_switch", "other"}).Draw(t, "kind")}
				devices[i].Links = append(devices[i].Links, l)
				w := way{i, peer, l.Direct()}
				best[w] = max(best[w], Value(l))
			}
		}
		g := newGraph(devices)
		for a := range n {
			for b := range n {
				there := best[way{a, b, true}] + best[way{a, b, false}]
				back := best[way{b, a, true}] + best[way{b, a, false}]
				if got := g.value(int32(a), int32(b)); a != b && got != min(there, back) { //nolint:gosec // 7 at most
					t.Fatalf("%d to %d counts for %d, want the lesser of %d and %d", a, b, got, there, back)
				}
			}
		}
	})
}
