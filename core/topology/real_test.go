package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// ids are those of units.
func ids(units []Unit) []string {
	var out []string
	for _, u := range units {
		out = append(out, u.ID)
	}
	return out
}

// without are IDs but for some, and for those that begin with them.
func without(all []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		return slices.ContainsFunc(gone, func(g string) bool { return strings.HasPrefix(id, g) })
	})
}

// TestRealMachines asks machines that exist what an operator knows the answer to.
func TestRealMachines(t *testing.T) {
	a100 := switched(8, 12)
	for name, tc := range map[string]struct {
		units      []Unit
		policy     Policy
		gone, must []string
		size       int
		want       string
		method     Method
	}{
		"DGX-1: a pair has two lanes":             {dgx1(), BestLinks, nil, nil, 2, "gpu00 gpu03", Enumeration},
		"DGX-1: two lanes to the one that must":   {dgx1(), BestLinks, nil, []string{"gpu05"}, 2, "gpu05 gpu06", Enumeration},
		"DGX-1: four are a quad":                  {dgx1(), BestLinks, nil, nil, 4, "gpu00 gpu01 gpu02 gpu03", Enumeration},
		"DGX-1: the other quad":                   {dgx1(), BestLinks, []string{"gpu01"}, nil, 4, "gpu04 gpu05 gpu06 gpu07", Enumeration},
		"DGX-1: one whose best neighbour is gone": {dgx1(), BestLinks, []string{"gpu06"}, nil, 1, "gpu05", Enumeration},
		"DGX A100: one NUMA node":                 {a100, BestLinks, []string{"gpu00"}, nil, 4, "gpu04 gpu05 gpu06 gpu07", Enumeration},
		"PCIe: one that has lost its neighbour":   {pcieOnly(8), BestLinks, []string{"gpu05"}, nil, 1, "gpu04", Enumeration},
		"PCIe: three, and a pair is left":         {pcieOnly(8), BestLinks, []string{"gpu03"}, nil, 3, "gpu00 gpu01 gpu02", Enumeration},
		"torus: a ring":                           {torus(), BestLinks, nil, nil, 4, "gpu00 gpu01 gpu02 gpu03", Enumeration},
		"MI210: a hive":                           {mi210(), BestLinks, []string{"gpu02"}, nil, 4, "gpu04 gpu05 gpu06 gpu07", Enumeration},
		"MI210: five":                             {mi210(), BestLinks, []string{"gpu00", "gpu04", "gpu05"}, nil, 5, "gpu01 gpu02 gpu03 gpu06 gpu07", Order},
		"MI300X: seven are that GPU":              {mi300x(), BestLinks, nil, nil, 7, "gpu07-p0 gpu07-p1 gpu07-p2 gpu07-p3 gpu07-p4 gpu07-p5 gpu07-p6", Hierarchy},
		"MI300X: eight are a GPU":                 {mi300x(), BestLinks, []string{"gpu00-p3"}, nil, 8, "gpu01-p0 gpu01-p1 gpu01-p2 gpu01-p3 gpu01-p4 gpu01-p5 gpu01-p6 gpu01-p7", Hierarchy},
		"MI300X: spread over GPUs":                {mi300x(), Spread, []string{"gpu00"}, nil, 3, "gpu04-p0 gpu05-p0 gpu07-p0", Hierarchy},
		"MI300X: packed beside what is in use":    {mi300x(), Pack, []string{"gpu04-p0", "gpu04-p1", "gpu04-p2"}, nil, 2, "gpu04-p3 gpu04-p4", Hierarchy},
		"replicas: two devices, one NUMA node":    {replicas(a100, 4), BestLinks, []string{"gpu00"}, nil, 2, "gpu01::0 gpu02::0", Hierarchy},
		"replicas: the device with less on it":    {replicas(a100, 2), BestLinks, []string{"gpu00::0", "gpu01::1"}, nil, 1, "gpu02::0", Enumeration},
		"no choice":                               {a100, None, nil, []string{"gpu07"}, 3, "gpu00 gpu01 gpu07", Order},
		"replicas: of a mesh, the double lane":    {replicas(dgx1(), 128), BestLinks, []string{"gpu00"}, nil, 2, "gpu02::0 gpu03::0", Greedy},
		"partitions: of a mesh, in one GPU":       {split(dgx1(), 7), BestLinks, nil, nil, 3, "gpu00-p0 gpu00-p1 gpu00-p2", Greedy},
	} {
		t.Run(name, func(t *testing.T) {
			topology := Prepare(tc.units, Options{Policy: tc.policy})
			r := topology.Choose(Request{Available: without(ids(tc.units), tc.gone...), Must: tc.must, Size: tc.size})
			if got := strings.Join(r.IDs, " "); tc.want != "" && got != tc.want {
				t.Errorf("chosen %s, want %s; %+v %+v", got, tc.want, r.Parts, r.Left)
			}
			if r.Method != tc.method {
				t.Errorf("by %s", r.Method)
			}
		})
	}
}

// However many units there are, an answer comes in time, and replicas are dealt out.
func TestManyUnits(t *testing.T) {
	units := replicas(machine(7000, func(int, int) inventory.Link { return inventory.Link{} }), 10)
	defer onOneThread()()
	start := cpu()
	topology := Prepare(units, Options{})
	r := Request{Available: ids(units), Must: ids(units[:5]), Size: 60_000}
	got := topology.Choose(r)
	checkAnswer(t, units, r, got)
	if repeats := got.Parts[0]; repeats.Aspect != RepeatedDevices || repeats.Value != 7000*(8*7/2)+4000*8 {
		t.Errorf("not dealt out: %+v", got.Parts)
	}
	if took := cpu() - start; took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// Verifies that a choice among 4,096 devices of a hierarchy, or replicas of fewer, is the
// best: partitions of the GPUs with the most free ones, on as few NUMA nodes as it can be.
func TestLargeHierarchy(t *testing.T) {
	units := split(machine(512, func(int, int) inventory.Link { return inventory.Link{} }), 8)
	topology := Prepare(units, Options{})
	if topology.Len() != 4096 {
		t.Fatalf("%d units", topology.Len())
	}
	// GPU i has 8 - i%3 free partitions.
	var free []string
	for i, u := range units {
		if gpu, part := i/8, i%8; part >= gpu%3 {
			free = append(free, u.ID)
		}
	}
	for _, size := range []int{2, 8, 100, 2000} {
		r := topology.Choose(Request{Available: free, Size: size})
		want, left := int64(0), int64(size) // pairs in one GPU: 171 have 8 free, then 171 have 7
		for gpu := range 342 {
			n := min(left, int64(8-gpu/171))
			want += pairs(n)
			left -= n
		}
		if r.Method != Hierarchy || !r.Exact() || len(r.IDs) != size || r.Parts[0].Aspect != SumOfLinks || r.Parts[0].Value != want*sameDevice {
			t.Errorf("%d by %s: %+v, want %d pairs in one GPU", size, r.Method, r.Parts, want)
		}
	}
}
