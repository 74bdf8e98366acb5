package nvidia

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Whatever joins GPUs, a reset is refused exactly if it reaches a device that was
// not asked for, and it is of all GPUs that it reaches.
func TestResetsReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "GPUs")
		name := func(i int) string { return fmt.Sprintf("GPU-%d", i) }
		l := newLoop(newBackend(nil, nil, nil), nil)
		l.cfg = &config{strategy: migNone}
		joined := make([]int, n) // the plain way: one number a group
		for i := range n {
			joined[i] = i
			l.roster.gpus[name(i)] = &record{gpu: driver.GPU{UUID: name(i), PCIBusID: fmt.Sprintf("0000:%02x:00.0", i)}}
		}
		for range rapid.IntRange(0, 8).Draw(t, "links") {
			a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")
			kind := rapid.SampledFrom([]backendv1.LinkKind{backendv1.LinkKind_LINK_KIND_NVLINK, backendv1.LinkKind_LINK_KIND_NVSWITCH}).Draw(t, "kind")
			l.links = append(l.links, driver.Link{A: name(a), B: name(b), Kind: kind})
			if kind == backendv1.LinkKind_LINK_KIND_NVLINK {
				from, to := joined[b], joined[a]
				for i := range joined {
					if joined[i] == from {
						joined[i] = to
					}
				}
			}
		}
		var asked, group []string
		for i := range n {
			if rapid.Bool().Draw(t, "asked") {
				asked = append(asked, name(i))
			}
		}
		for i := range n {
			for j := range n {
				if joined[i] == joined[j] && slices.Contains(asked, name(j)) {
					group = append(group, name(i))
					break
				}
			}
		}
		got := l.find(asked)
		if !slices.Equal(got.uuids(), group) {
			t.Fatalf("asked for %v: reset of %v, want %v", asked, got.uuids(), group)
		}
		if refused := got.Alone() != nil; refused != (len(group) > len(asked)) {
			t.Fatalf("asked for %v of %v: %v", asked, group, got.Alone())
		}
	})
}
