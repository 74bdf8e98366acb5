package topology

import (
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// board makes n GPUs whose PCIe tree is that of most boards: pairs behind a switch, two
// sockets. lanes is how many NVLinks (of a kind) a pair has besides.
func board(n int, kind string, lanes func(a, b int) int) []Unit {
	units := pcieOnly(n)
	for i, u := range units {
		for j, peer := range units {
			if count := lanes(i, j); i != j && count > 0 {
				u.Device.Links = append(u.Device.Links, inventory.Link{Peer: peer.ID, Kind: kind, Count: count})
			}
		}
	}
	return units
}

// dgx1Pascal is the hybrid cube mesh of a DGX-1 with P100: one NVLink to each GPU of the
// same quad, and one to the GPU in the same place of the other quad.
func dgx1Pascal() []Unit {
	return board(8, "nvlink", func(a, b int) int {
		if a/4 == b/4 || a%4 == b%4 {
			return 1
		}
		return 0
	})
}

// dgx1Volta is the hybrid cube mesh of a DGX-1 with V100, with its PCIe tree.
func dgx1Volta() []Unit {
	return board(8, "nvlink", func(a, b int) int { return max(0, int(dgx1Lanes[a][b])-'0') })
}

// nvidiaScore is what NVIDIA's go-gpuallocator counts for a pair: its PCIe part, and 100
// for each NVLink.
func nvidiaScore(a, b *inventory.Device) (score int64) {
	pcie := map[string]int64{
		"cross_numa": 10, "same_numa": 20, "pcie_host_bridge": 30, "pcie_multi_switch": 40, "pcie_switch": 50, "pcie_same_board": 60,
	}
	for _, l := range a.Links {
		if l.Peer != b.ID {
			continue
		}
		if part, ok := pcie[l.Kind]; ok {
			score += part
		} else {
			score += 100 * int64(l.Count)
		}
	}
	return score
}

// amdScore is the kernel's weight of a pair, of which AMD's device plugin wants little.
func amdScore(a, b *inventory.Device) int64 {
	for _, l := range a.Links {
		if l.Peer == b.ID {
			return -int64(l.Distance)
		}
	}
	return -1000
}

// halves are two partitions of each device, as far from each other as the kernel says of
// partitions.
func halves(units []Unit) []Unit {
	units = split(units, 2)
	for _, u := range units {
		for i := range u.Device.Links {
			if l := &u.Device.Links[i]; l.Kind == "same_device" {
				l.Distance = 13
			}
		}
	}
	return units
}

// judge scores sets by a vendor's measure.
type judge [][]int64

func newJudge(units []Unit, pair func(a, b *inventory.Device) int64) judge {
	j := make(judge, len(units))
	for a := range units {
		for b := range units {
			if a != b {
				j[a] = append(j[a], pair(units[a].Device, units[b].Device))
			} else {
				j[a] = append(j[a], 0)
			}
		}
	}
	return j
}

func (j judge) score(set uint32) (sum int64) {
	for a := set; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			sum += j[bits.TrailingZeros32(a)][bits.TrailingZeros32(b)]
		}
	}
	return sum
}

// best is the best score of a size of what is available, all sets compared.
func (j judge) best(available uint32, size int) int64 {
	best, found := int64(0), false
	for set := available; set != 0; set = (set - 1) & available {
		if bits.OnesCount32(set) == size {
			if score := j.score(set); !found || score > best {
				best, found = score, true
			}
		}
	}
	return best
}

// TestVendorsMeasure verifies that no choice is worse by the vendors' own measure than
// any other set: for all that can be available, and all sizes.
func TestVendorsMeasure(t *testing.T) {
	for name, tc := range map[string]struct {
		units []Unit
		pair  func(a, b *inventory.Device) int64
	}{
		"DGX-1 Pascal":        {dgx1Pascal(), nvidiaScore},
		"DGX-1 Volta":         {dgx1Volta(), nvidiaScore},
		"switched board":      {board(8, "nvswitch", func(int, int) int { return 12 }), nvidiaScore},
		"PCIe alone":          {pcieOnly(8), nvidiaScore},
		"DGX-2":               {board(16, "nvswitch", func(int, int) int { return 6 }), nvidiaScore},
		"8 MI210 in 2 hives":  {captured(t, "amd/topo-mi210-xgmi-pcie.tar.gz"), amdScore},
		"partitions, MI300X":  {captured(t, "amd/topo-mi300-cpx.tar.gz")[:16], amdScore},
		"partitions in hives": {halves(captured(t, "amd/topo-mi210-xgmi-pcie.tar.gz")), amdScore},
	} {
		t.Run(name, func(t *testing.T) {
			topology, j := Prepare(tc.units, Options{}), newJudge(tc.units, tc.pair)
			names, index := ids(tc.units), map[string]int{}
			for i, id := range names {
				index[id] = i
			}
			asked, lower, worst := 0, 0, int64(0)
			for _, available := range sampled(len(names)) {
				var free []string
				for set := available; set != 0; set &= set - 1 {
					free = append(free, names[bits.TrailingZeros32(set)])
				}
				for size := 2; size <= len(free); size++ {
					if len(names) > 8 && size%3 == 0 { // each question compares up to 12,870 sets
						continue
					}
					got := uint32(0)
					for _, id := range topology.Choose(Request{Available: free, Size: size}).IDs {
						got |= 1 << index[id]
					}
					asked++
					if short := j.best(available, size) - j.score(got); short > 0 {
						lower, worst = lower+1, max(worst, short)
					}
				}
			}
			if lower > 0 {
				t.Errorf("%d of %d choices are worse by the vendor's measure than another set, by up to %d", lower, asked, worst)
			}
		})
	}
}

// TestPartitionsOfManyGPUs verifies the same for 63 partitions of MI300X, of which not all
// sets can be compared: pairs of one GPU are 13 apart by the kernel and all others 41, so
// the best set takes the GPUs with the most free partitions, as far as it goes.
func TestPartitionsOfManyGPUs(t *testing.T) {
	units := captured(t, "amd/topo-mi300-cpx.tar.gz")
	topology, r := Prepare(units, Options{}), rand.New(rand.NewPCG(3, 4))
	parent := map[string]string{}
	for _, u := range units {
		parent[u.ID] = u.Device.Parent
	}
	together := func(counts []int64) (n int64) {
		for _, x := range counts {
			n += pairs(x)
		}
		return n
	}
	of := func(ids []string) []int64 {
		counts := map[string]int64{}
		for _, id := range ids {
			counts[parent[id]]++
		}
		return slices.Sorted(maps.Values(counts))
	}
	for range 300 {
		var free []string
		for _, id := range ids(units) {
			if r.IntN(3) > 0 {
				free = append(free, id)
			}
		}
		size := 1 + r.IntN(len(free))
		var want []int64
		left := int64(size)
		for _, x := range slices.Backward(of(free)) {
			want = append(want, min(x, left))
			left -= min(x, left)
		}
		got := topology.Choose(Request{Available: free, Size: size})
		if together(of(got.IDs)) != together(want) {
			t.Fatalf("%d of %v: %v by GPU, the best is %v", size, of(free), of(got.IDs), want)
		}
	}
}

// sampled are sets of n units: all of up to 8; of more, 24 that are drawn.
func sampled(n int) (sets []uint32) {
	if n <= 8 {
		for set := range uint32(1) << n {
			sets = append(sets, set)
		}
		return sets
	}
	r := rand.New(rand.NewPCG(1, 2))
	sets = append(sets, 1<<n-1)
	for len(sets) < 24 {
		sets = append(sets, uint32(r.IntN(1<<n)))
	}
	return sets
}
