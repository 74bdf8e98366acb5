package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// find reads a machine that does not change.
func find(t testing.TB, tree *amdtree.Tree) Inventory {
	t.Helper()
	got, err := Read(tree.Sysfs(), nil)
	if err != nil || got.Unstable {
		t.Fatalf("%v, unstable %t", err, got.Unstable)
	}
	return got
}

// texts returns problems as text.
func texts(problems []Problem) []string {
	all := []string{}
	for _, p := range problems {
		all = append(all, fmt.Sprintf("%s (lost %t): %v", p.Device, p.Lost, p.Err))
	}
	return all
}

// sketch returns what a partition is and where, in a line.
func sketch(p Partition) string {
	return fmt.Sprintf("%s cus=%d xccs=%d %s vram=%d card%d renderD%d links=%d", p.ID, p.ComputeUnits, p.XCCs, p.GFX, p.VRAM, p.Card, p.Render, len(p.Links))
}

// wanted returns the sketch of each partition of a tree's machine, from its description.
func wanted(t *testing.T, tree *amdtree.Tree) map[string][]string {
	t.Helper()
	m := tree.Machine()
	all, total := map[string][]string{}, 0
	count := func(g amdtree.GPU, minors int) int {
		n := map[string]int{"": 1, "SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": g.Model.XCCs}[g.Compute]
		return min(n, minors)
	}
	for i, g := range m.GPUs {
		_, renders := tree.Minors(i)
		total += count(g, len(renders))
	}
	for i, g := range m.GPUs {
		cards, renders := tree.Minors(i)
		id := fmt.Sprintf("amdgpu-%016x", g.UniqueID)
		if m.NoUniqueID {
			id = "amdgpu-pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(g.Address.String())
		}
		parts := map[string]int{"": 1, "SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": g.Model.XCCs}[g.Compute]
		for p := range count(g, len(renders)) {
			name, xccs, links := id, g.Model.XCCs/parts, total-1
			if parts > 1 {
				name = fmt.Sprintf("%s-%s-%d", id, strings.ToLower(g.Compute), p)
			}
			if m.OldKernel {
				xccs = 0
			}
			gfx := (kfd.Node{GFXVersion: uint32(g.Model.GFX)}).GFX()
			all[g.Address.String()] = append(all[g.Address.String()], fmt.Sprintf("%s cus=%d xccs=%d %s vram=%d card%d renderD%d links=%d", name,
				g.Model.SIMDs/g.Model.SIMDsPerCU/parts, xccs, gfx, g.Model.VRAM/uint64(parts), cards[p], renders[p], links))
		}
	}
	return all
}

// found returns the same of an inventory.
func found(inventory Inventory) map[string][]string {
	all := map[string][]string{}
	for _, g := range inventory.GPUs {
		for _, p := range g.Partitions {
			all[g.PCI.Address.String()] = append(all[g.PCI.Address.String()], sketch(p))
		}
	}
	return all
}

// Machines of every kind are found as they are described.
func TestMachines(t *testing.T) {
	change := func(m amdtree.Machine, change func(*amdtree.Machine)) amdtree.Machine {
		change(&m)
		return m
	}
	mi300a := amdtree.MI300X
	mi300a.Device, mi300a.XCCs, mi300a.SIMDs, mi300a.VRAM, mi300a.Compute = 0x74a0, 6, 912, 128<<30, []string{"SPX", "TPX", "CPX"}
	for name, c := range map[string]struct {
		m        amdtree.Machine
		problems []string
	}{
		"Vega10":          {amdtree.NewVega10(), nil},
		"Vega10 nameless": {change(amdtree.NewVega10(), func(m *amdtree.Machine) { m.NoUniqueID = true }), nil},
		"MI210":           {amdtree.NewMI210(), nil},
		"MI300X in SPX":   {amdtree.NewMI300X("SPX", "NPS1"), nil},
		"MI300X in DPX":   {amdtree.NewMI300X("DPX", "NPS2"), nil},
		"MI300X in CPX":   {amdtree.NewMI300X("CPX", "NPS4"), []string{"0000:e5:00.0 (lost false): only 7 of the 8 partitions of mode CPX are there"}},
		"mixed":           {amdtree.NewMixed(), nil},
		"mixed, dotted":   {change(amdtree.NewMixed(), func(m *amdtree.Machine) { m.Dotted = true }), nil},
		"mixed, new kernel": {change(amdtree.NewMixed(), func(m *amdtree.Machine) {
			m.HighIndex, m.XCDIdentity = true, true
		}), nil},
		"mixed, nameless": {change(amdtree.NewMixed(), func(m *amdtree.Machine) { m.NoUniqueID = true }), nil},
		"MI300A in TPX": {amdtree.Machine{GPUs: []amdtree.GPU{
			{Model: mi300a, Address: drmAddress(t, "0000:05:00.0"), UniqueID: 1, Hive: 7, Compute: "TPX", Memory: "NPS1"},
			{Model: mi300a, Address: drmAddress(t, "0000:27:00.0"), UniqueID: 2, Hive: 7, Compute: "CPX", Memory: "NPS2"},
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := amdtree.New(t, c.m)
			got := find(t, tree)
			if diff := cmp.Diff(wanted(t, tree), found(got)); diff != "" {
				t.Errorf("partitions differ (-want +got):\n%s", diff)
			}
			if problems := texts(got.Problems); !slices.Equal(problems, c.problems) {
				t.Errorf("problems %q, want %q", problems, c.problems)
			}
			if !slices.IsSortedFunc(got.GPUs, func(a, b GPU) int { return a.PCI.Address.Compare(b.PCI.Address) }) {
				t.Error("GPUs are not by address")
			}
		})
	}
}

// A card has all attributes that its files have.
func TestCard(t *testing.T) {
	m := amdtree.NewMixed()
	m.GPUs[0].ProductName = "AMD Instinct MI300X OAM"
	m.GPUs[0].Model.Memory = []string{"NPS1", "NPS2", "NPS3", "NPS4", "NPS6", "NPS8"}
	got := find(t, amdtree.New(t, m))
	g := got.GPUs[0]
	g.Partitions, g.PCI.Parents = nil, nil
	want := GPU{
		ID: "amdgpu-f000000000000001", PCI: g.PCI, UniqueID: 0xf000000000000001, Hive: 7, Compute: "CPX", Memory: "NPS4",
		ComputeModes: []string{"SPX", "DPX", "QPX", "CPX"}, MemoryModes: m.GPUs[0].Model.Memory,
		Product: "AMD Instinct MI300X OAM", Family: "CDNA3", VRAM: 192 << 30,
	}
	if diff := cmp.Diff(want, g); diff != "" || !g.Partitioned() {
		t.Errorf("the card differs (-want +got):\n%s", diff)
	}
	if at := got.GPUs[2].PCI; at.Address != m.GPUs[2].Address || at.ID != 0x74a1 || at.NUMANode != 1 || at.Class != 0x120000 || at.Driver != "amdgpu" {
		t.Errorf("PCI says %+v", at)
	}
	mi210 := got.GPUs[4]
	if mi210.PCI.NUMANode != -1 || mi210.Compute != "" || mi210.ComputeModes != nil || mi210.Hive != 0 ||
		mi210.Product != "AMD Instinct MI210" || mi210.Family != "CDNA2" || mi210.Partitioned() {
		t.Errorf("the MI210 is %+v", mi210)
	}
	if got.DriverVersion != "6.12.12" || got.Generation < 2 {
		t.Errorf("driver %q, generation %d", got.DriverVersion, got.Generation)
	}
}

// The captures of real machines are found whole.
func TestCaptures(t *testing.T) {
	for name, want := range map[string]struct {
		ids      []string
		parts    int
		units    uint32
		problems []string
	}{
		"topology-parsing":     {[]string{"amdgpu-c34ec50444dd0a6c", "amdgpu-c34ec50444dd0a6d"}, 2, 64, []string{"KFD node 2 (lost false)"}},
		"topo-mi210-xgmi-pcie": {nil, 8, 104, nil},
		"topo-mi300-cpx":       {nil, 63, 38, []string{"0000:e5:00.0 (lost false)"}},
	} {
		t.Run(name, func(t *testing.T) {
			archive := sysroot.Captured(t, "amd/"+name+".tar.gz")
			m, err := amdtree.Capture(archive)
			if err != nil {
				t.Fatal(err)
			}
			tree := amdtree.New(t, m)
			got := find(t, tree)
			parts, ids := 0, []string{}
			for i, g := range got.GPUs {
				parts += len(g.Partitions)
				ids = append(ids, g.ID)
				if !slices.ContainsFunc(m.GPUs, func(o amdtree.GPU) bool { return ID(o.UniqueID, o.Address) == g.ID && o.Address == g.PCI.Address }) {
					t.Errorf("GPU %d is %s at %s, which was not captured", i, g.ID, g.PCI.Address)
				}
				for j, p := range g.Partitions {
					if p.Index != j || p.VRAM == 0 || p.ComputeUnits != want.units || (want.ids == nil && len(p.Links) != want.parts-1) {
						t.Errorf("%s has the index %d, %d bytes of VRAM, %d compute units, %d links", p.ID, p.Index, p.VRAM, p.ComputeUnits, len(p.Links))
					}
				}
			}
			problems := texts(got.Problems)
			if len(got.GPUs) != len(m.GPUs) || parts != want.parts || len(problems) != len(want.problems) {
				t.Errorf("%d GPUs, %d partitions, problems %q", len(got.GPUs), parts, problems)
			}
			for i := range want.problems {
				if i < len(problems) && !strings.HasPrefix(problems[i], want.problems[i]) {
					t.Errorf("problems %q, want %q", problems, want.problems)
				}
			}
			slices.Sort(ids)
			if want.ids != nil && !slices.Equal(ids, want.ids) {
				t.Errorf("IDs %q, want %q", ids, want.ids)
			}
		})
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := Read(t.TempDir(), nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "driver amdgpu") {
		t.Errorf("without a driver: %v", err)
	}
	tree := amdtree.New(t, amdtree.NewMI210())
	if err := tree.ReloadDriver(); err != nil {
		t.Fatal(err)
	}
	if got := find(t, tree); len(got.GPUs) != 0 || len(got.Problems) != 0 {
		t.Errorf("without a card: %+v", got)
	}
}

// A machine without the compute driver has GPUs that cannot compute.
func TestNoKFD(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewVega10())
	if err := tree.Spoil("sys/devices/virtual/kfd", sysroot.Damages["missing"]); err != nil {
		t.Fatal(err)
	}
	got := find(t, tree)
	problems := texts(got.Problems)
	if len(got.GPUs) != 0 || len(problems) != 2 || !strings.Contains(problems[0], "0000:19:00.0 (lost true)") || !strings.Contains(problems[1], "KFD (lost true): there is no compute driver") {
		t.Errorf("GPUs %v, problems %q", got.GPUs, problems)
	}
}
