package topology

import (
	"slices"
	"testing"
)

// Verifies that a client which takes the first 2, 4 or 8 units, or the next ones after another
// such client, gets units whose links are as good as those of the best choice from all that are
// left, on machines with different links, and whatever their health.
func TestFirstDevicesHaveTheBestLinks(t *testing.T) {
	for name, units := range map[string][]Unit{
		"DGX-1": dgx1(), "switched": switched(8, 12), "PCIe": pcieOnly(8), "torus": torus(),
		"partitions": split(switched(8, 12), 8), "one": pcieOnly(1), "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			top := Prepare(units, Options{})
			order := top.Order()
			if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, ids(units)) {
				t.Fatalf("the order is %v, want each of the units once", order)
			}
			for _, size := range []int{2, 4, 8} {
				left := slices.Clone(order)
				for taken := range slices.Chunk(order, size) {
					if len(taken) < size {
						break
					}
					best := top.Choose(Request{Available: left, Size: size})
					if got, want := links(top, taken), links(top, best.IDs); got < want {
						t.Errorf("%d units %v have links of %d, the best choice %v has %d", size, taken, got, best.IDs, want)
					}
					left = left[size:]
				}
			}
			ill := slices.Clone(units)
			for i := range ill {
				ill[i].Healthy = i%2 == 0
			}
			if again := Prepare(ill, Options{}).Order(); !slices.Equal(order, again) {
				t.Errorf("the order depends on health: %v and %v", order, again)
			}
		})
	}
}

// links returns the sum of the links between the units.
func links(t *Topology, ids []string) (sum int64) {
	for i, a := range ids {
		for _, b := range ids[:i] {
			sum += t.Weight(int(t.device[t.index[a]]), int(t.device[t.index[b]]))
		}
	}
	return sum
}
