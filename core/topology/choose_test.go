package topology

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// checkAnswer fails if an answer is not what any answer must be: as many as can be,
// all that must be up to the size, and otherwise only what is available, known and
// healthy.
func checkAnswer(t interface{ Fatalf(string, ...any) }, units []Unit, r Request, got Result) {
	usable, available := map[string]bool{}, map[string]bool{}
	for _, id := range r.Available {
		available[id] = true
	}
	for _, u := range units {
		if _, known := usable[u.ID]; !known {
			usable[u.ID] = u.Healthy && available[u.ID]
		}
	}
	included := map[string]bool{}
	for _, id := range r.Must {
		included[id], usable[id] = true, true
	}
	can := 0
	for _, ok := range usable {
		if ok {
			can++
		}
	}
	want := min(can, max(0, r.Size))
	if len(got.IDs) != want || got.Missing != max(0, r.Size)-want {
		t.Fatalf("%d chosen, %d missing; %d of %d can be had", len(got.IDs), got.Missing, want, r.Size)
	}
	has := 0
	for i, id := range got.IDs {
		if !usable[id] || i > 0 && got.IDs[i-1] >= id {
			t.Fatalf("%q is not to be had, or not in order: %q", id, got.IDs)
		}
		if included[id] {
			has++
		}
	}
	if has != min(len(included), want) {
		t.Fatalf("%d of %q are in %q", has, r.Must, got.IDs)
	}
}

// Requests of any kind have an answer: unknown, unhealthy and repeated IDs, more
// than there is, less than must be.
func TestAnyRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := drawUnits(t, 24)
		for i := range units {
			units[i].Healthy = rapid.IntRange(0, 5).Draw(t, "health") > 0
		}
		options := drawOptions(t)
		options.Policy = rapid.SampledFrom(append(Policies(), "", "unknown")).Draw(t, "any policy")
		topology := Prepare(units, options)
		id := rapid.SampledFrom(append(ids(units), "unknown", "gone", ""))
		r := Request{
			Available: rapid.SliceOfN(id, 0, 40).Draw(t, "available"),
			Must:      rapid.SliceOfN(id, 0, 4).Draw(t, "must"),
			Size:      rapid.IntRange(-1, 30).Draw(t, "size"),
		}
		got := topology.Choose(r)
		checkAnswer(t, units, r, got)
		if e := topology.Explain(context.Background(), r); e.RunnerUp != nil {
			checkAnswer(t, units, r, *e.RunnerUp)
		}
	})
}

// The order of units, links and IDs makes no difference.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := drawUnits(t, 20)
		options := drawOptions(t)
		topology, r := Prepare(units, options), drawRequest(t, units)
		r.Size = min(r.Size, 6)
		got := topology.Choose(r)
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		shuffle := func(n int, swap func(i, j int)) { random.Shuffle(n, swap) }
		again := slices.Clone(units)
		shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		for _, u := range again {
			links := u.Device.Links
			shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		}
		a := r.Available
		shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] })
		if diff := cmp.Diff(got, Prepare(again, options).Choose(r)); diff != "" {
			t.Fatalf("the order matters:\n%s", diff)
		}
	})
}

// TestValue verifies the points of each kind, of lanes and of a driver's distances.
func TestValue(t *testing.T) {
	for _, tc := range []struct {
		link inventory.Link
		want int64
	}{
		{inventory.Link{Kind: "same_device"}, 10_000},
		{inventory.Link{Kind: "nvlink", Count: 2}, 200},
		{inventory.Link{Kind: "nvswitch", Count: 18}, 1800},
		{inventory.Link{Kind: "xgmi"}, 100},
		{inventory.Link{Kind: "nvlink", Count: 4096}, 6400},
		{inventory.Link{Kind: "pcie_same_board"}, 60},
		{inventory.Link{Kind: "pcie_switch"}, 50},
		{inventory.Link{Kind: "pcie_multi_switch"}, 40},
		{inventory.Link{Kind: "pcie_host_bridge"}, 30},
		{inventory.Link{Kind: "same_numa"}, 20},
		{inventory.Link{Kind: "cross_numa"}, 10},
		{inventory.Link{Kind: "of tomorrow"}, 1},
		{inventory.Link{Kind: "same_device", Distance: 13}, 87},
		{inventory.Link{Kind: "xgmi", Count: 4, Distance: 15}, 85},
		{inventory.Link{Kind: "cross_numa", Distance: 72}, 28},
		{inventory.Link{Kind: "xgmi", Distance: 1 << 30}, 1},
	} {
		if got := Value(tc.link); got != tc.want {
			t.Errorf("%+v counts for %d, want %d", tc.link, got, tc.want)
		}
	}
}

// Health changes what is suggested, and costs no new shape; other changes do.
func TestRefresh(t *testing.T) {
	units := switched(4, 12)
	before := Prepare(units, Options{})
	sick := slices.Clone(units)
	sick[0].Healthy = false
	after := before.Refresh(sick)
	if after.shape != before.shape {
		t.Error("a change of health made a new shape")
	}
	r := Request{Available: ids(units), Size: 2}
	if got := after.Choose(r).IDs; !slices.Equal(got, []string{"gpu02", "gpu03"}) {
		t.Errorf("chosen %v with gpu00 unhealthy", got)
	}
	if got := before.Choose(r).IDs; !slices.Equal(got, []string{"gpu00", "gpu01"}) {
		t.Errorf("the topology before chooses %v", got)
	}
	changes := map[string]func(d *inventory.Device){
		"link":   func(d *inventory.Device) { d.Links = d.Links[1:] },
		"NUMA":   func(d *inventory.Device) { d.NUMANodes = nil },
		"parent": func(d *inventory.Device) { d.Parent = "board" },
	}
	for name, change := range changes {
		d := *units[1].Device
		change(&d)
		other := slices.Clone(units)
		other[1].Device = &d
		if before.Refresh(other).shape == before.shape {
			t.Errorf("a change of %s made no new shape", name)
		}
	}
	if before.Refresh(units[1:]).Len() != 3 || before.Refresh(append(slices.Clone(units[1:]), units[1])).Len() != 3 {
		t.Error("a unit that went is still there")
	}
}

// Asking makes sense only where units differ.
func TestHelps(t *testing.T) {
	one := switched(1, 12)
	for name, tc := range map[string]struct {
		units  []Unit
		policy Policy
		want   bool
	}{
		"nothing":           {nil, BestLinks, false},
		"one":               {one, BestLinks, false},
		"one with replicas": {replicas(one, 4), BestLinks, false},
		"all alike":         {machineOnOneNode(4), BestLinks, false},
		"NUMA nodes":        {switched(8, 12), BestLinks, true},
		"links":             {dgx1(), BestLinks, true},
		"no policy":         {dgx1(), None, false},
		"replicas":          {replicas(machineOnOneNode(2), 4), BestLinks, true},
	} {
		if got := Prepare(tc.units, Options{Policy: tc.policy}).Helps(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// machineOnOneNode is n GPUs at one switch of one NUMA node.
func machineOnOneNode(n int) []Unit {
	units := switched(n, 12)
	for _, u := range units {
		u.Device.NUMANodes = []int{0}
	}
	return units
}

// random is n devices with links of any weight: no hierarchy at all.
func random(n int) []Unit {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	weights := make([]int, n*n)
	for i := range weights {
		weights[i] = r.IntN(900)
	}
	return machine(n, func(a, b int) inventory.Link {
		return inventory.Link{Kind: "xgmi", Distance: weights[min(a, b)*n+max(a, b)]}
	})
}
