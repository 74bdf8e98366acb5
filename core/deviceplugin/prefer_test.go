package deviceplugin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// on makes candidates of devices with one NUMA node each; -1 is unknown.
func on(nodes ...int) []candidate {
	var out []candidate
	for i, node := range nodes {
		c := candidate{id: fmt.Sprintf("d%d", i), device: inventory.Key{ID: fmt.Sprintf("d%d", i)}}
		if node >= 0 {
			c.nodes = []int{node}
		}
		out = append(out, c)
	}
	return out
}

// copies makes n replicas of each candidate.
func copies(in []candidate, n int) []candidate {
	var out []candidate
	for _, c := range in {
		for i := range n {
			r := c
			r.id = fmt.Sprintf("%s::%d", c.id, i)
			out = append(out, r)
		}
	}
	return out
}

func TestPrefer(t *testing.T) {
	both := candidate{id: "both", device: inventory.Key{ID: "both"}, nodes: []int{0, 1}}
	for name, tc := range map[string]struct {
		available, must []candidate
		size            int
		want            []string
	}{
		"nothing":                  {nil, nil, 2, nil},
		"none asked":               {on(0, 1), nil, 0, nil},
		"short":                    {on(0), nil, 3, []string{"d0"}},
		"the tightest node":        {on(0, 0, 0, 1, 1), nil, 2, []string{"d3", "d4"}},
		"the only node that fits":  {on(0, 0, 0, 1, 1), nil, 3, []string{"d0", "d1", "d2"}},
		"the largest, then a fit":  {on(0, 1, 1, 2, 2, 2), nil, 4, []string{"d0", "d3", "d4", "d5"}},
		"beside must":              {on(0, 1, 0, 1, 1), on(0), 2, []string{"d0", "d2"}},
		"unknown last":             {on(-1, 0, 0), nil, 2, []string{"d1", "d2"}},
		"unknown fills up":         {on(-1, 0), nil, 2, []string{"d0", "d1"}},
		"all unknown":              {on(-1, -1, -1), nil, 2, []string{"d0", "d1"}},
		"a device on two nodes":    {append(on(0, 1), both), nil, 2, []string{"both", "d0"}},
		"must alone":               {on(0, 1), on(0, 1), 1, []string{"d0"}},
		"replicas spread":          {copies(on(0, 0), 3), nil, 2, []string{"d0::0", "d1::0"}},
		"spread before NUMA":       {copies(on(0, 1), 3), nil, 2, []string{"d0::0", "d1::0"}},
		"more than devices":        {copies(on(0, 0), 3), nil, 3, []string{"d0::0", "d0::1", "d1::0"}},
		"away from must's device":  {copies(on(0, 0), 2), copies(on(0, 0), 2)[:1], 2, []string{"d0::0", "d1::0"}},
		"the device with more":     {copies(on(0, 0), 3)[1:], nil, 1, []string{"d1::0"}},
		"one asked of two nodes":   {on(0, 1), nil, 1, []string{"d0"}},
		"must is not among others": {on(1), []candidate{{id: "gone", device: inventory.Key{ID: "gone"}}}, 2, []string{"d0", "gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := prefer(tc.available, tc.must, tc.size)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is asked: the choice is of what is available, contains what it must,
// is as long as it can be, spreads over devices, depends on no order, and on
// plain devices needs no more NUMA nodes than any other.
func TestPreferProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.IntRange(-1, 3), 0, 10).Draw(t, "nodes")
		all := copies(on(nodes...), rapid.IntRange(1, 3).Draw(t, "replicas"))
		var available []candidate
		for _, c := range all {
			if rapid.Bool().Draw(t, "available") {
				available = append(available, c)
			}
		}
		must := available[:rapid.IntRange(0, min(3, len(available))).Draw(t, "must")]
		size := rapid.IntRange(0, 12).Draw(t, "size")
		got := prefer(available, must, size)

		if want := min(size, len(available)); len(got) != want {
			t.Fatalf("%d of %d chosen: %v", len(got), want, got)
		}
		chosen := map[string]candidate{}
		for _, id := range got {
			i := slices.IndexFunc(available, func(c candidate) bool { return c.id == id })
			if _, twice := chosen[id]; twice || i < 0 {
				t.Fatalf("%s is there twice, or not available: %v", id, got)
			}
			chosen[id] = available[i]
		}
		if size >= len(must) {
			for _, c := range must {
				if _, ok := chosen[c.id]; !ok {
					t.Fatalf("%s must be in %v", c.id, got)
				}
			}
			fresh := devices(available) - devices(must)
			if n := devices(slices.Collect(maps.Values(chosen))); fresh >= size-len(must) && n != devices(must)+size-len(must) {
				t.Fatalf("%d devices for %d replicas, and %d were free: %v", n, size, fresh, got)
			}
		}
		shuffled := slices.Clone(available)
		rand.New(rand.NewPCG(1, uint64(size))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if diff := cmp.Diff(got, prefer(shuffled, must, size)); diff != "" {
			t.Fatalf("the order matters:\n%s", diff)
		}
	})
}

func TestPreferFewestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		available := on(rapid.SliceOfN(rapid.IntRange(0, 4), 1, 12).Draw(t, "nodes")...)
		size := rapid.IntRange(1, len(available)).Draw(t, "size")
		used := map[int]int{}
		for _, id := range prefer(available, nil, size) {
			i := slices.IndexFunc(available, func(c candidate) bool { return c.id == id })
			used[available[i].nodes[0]]++
		}
		per := make([]int, 5)
		for _, c := range available {
			per[c.nodes[0]]++
		}
		slices.Sort(per)
		slices.Reverse(per)
		fewest, have := 0, 0
		for have < size {
			have += per[fewest]
			fewest++
		}
		if len(used) != fewest {
			t.Fatalf("uses %d nodes, %d would do: %v", len(used), fewest, used)
		}
	})
}

// The worst case of a large node must not hold up a pod.
func TestPreferIsFast(t *testing.T) {
	var nodes []int
	for i := range 7_000 {
		nodes = append(nodes, i%16)
	}
	available := copies(on(nodes...), 10)
	start := time.Now()
	if got := prefer(available, available[:5], 60_000); len(got) != 60_000 {
		t.Errorf("%d chosen", len(got))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func devices(in []candidate) int {
	seen := map[inventory.Key]bool{}
	for _, c := range in {
		seen[c.device] = true
	}
	return len(seen)
}
