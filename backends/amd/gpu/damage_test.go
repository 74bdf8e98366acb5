package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

func drmAddress(t *testing.T, s string) pci.Address {
	t.Helper()
	at, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// others returns the GPUs but one, without links, which lead to what may be gone.
func others(inventory Inventory, but pci.Address) []GPU {
	var all []GPU
	for _, g := range inventory.GPUs {
		if g.PCI.Address == but {
			continue
		}
		g.Partitions = slices.Clone(g.Partitions)
		for i := range g.Partitions {
			g.Partitions[i].Links = nil
		}
		all = append(all, g)
	}
	return all
}

// rewrite replaces a line of a file that begins with a word.
func rewrite(key, line string) sysroot.Damage {
	return func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines, found := strings.Split(string(b), "\n"), false
		for i := range lines {
			if strings.HasPrefix(lines[i], key) {
				lines[i], found = line, true
			}
		}
		if !found {
			return fmt.Errorf("%s has no %s", path, key)
		}
		return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600)
	}
}

func text(s string) sysroot.Damage {
	return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
}

// Damage affects its card or partition, with a problem; the other cards are as before. Node 4
// is the GPU at 0000:03:00.0, which has renderD130 and card3.
func TestDamage(t *testing.T) {
	const card, node = "sys/bus/pci/devices/0000:03:00.0/", "sys/class/kfd/kfd/topology/nodes/4/"
	type one struct {
		file   string
		damage sysroot.Damage
		want   string
		stays  bool
	}
	cases := map[string]one{
		"no KFD node":            {node, os.RemoveAll, "no KFD node of it", false},
		"no render node":         {"sys/class/drm/renderD130", os.RemoveAll, "renderD130 is not among DRM's devices", false},
		"render minor 0":         {node + "properties", rewrite("drm_render_minor", "drm_render_minor 0"), "it has no render node", false},
		"render node of another": {node + "properties", rewrite("drm_render_minor", "drm_render_minor 131"), "it reports the address 0000:03:00, but 0000:26:00.0 leads to 0000:26:00.0", false},
		"NUMA node":              {card + "numa_node", sysroot.Binary, "", true},
		"damaged node":           {node + "properties", sysroot.Binary, "properties", false},
		"damaged render node":    {"sys/class/drm/renderD130", sysroot.Loop, "renderD130", false},
		// The driver's entry is a name only; the card is read by its address.
		"damaged driver link":   {"sys/bus/pci/drivers/amdgpu/0000:03:00.0", sysroot.Loop, "", true},
		"unknown render node":   {node + "properties", rewrite("drm_render_minor", "drm_render_minor 190"), "renderD190 is not among DRM's devices", false},
		"another place":         {node + "properties", rewrite("location_id", "location_id 9728"), "it reports the address 0000:26:00, but", false},
		"another domain":        {node + "properties", rewrite("domain", "domain 1"), "it reports the address 0001:03:00, but", false},
		"GPU of another vendor": {card + "vendor", text("0x10de\n"), "PCI vendor is 0x10de", false},
		"unique_id cut off":     {card + "unique_id", sysroot.Truncate, "want 16 hexadecimal digits", false},
		"unique_id all ones":    {card + "unique_id", text("ffffffffffffffff\n"), "want 16 hexadecimal digits, not all f", false},
		"unknown mode":          {card + "current_compute_partition", text("UNKNOWN\n"), `current_compute_partition is "UNKNOWN"`, false},
		"no modes":              {card + "current_compute_partition", text("Not supported\n"), "", true},
		"link missing":          {node + "io_links/1", os.RemoveAll, "", true},
		"link damaged":          {node + "io_links/1/properties", sysroot.Binary, "io_links/1/properties", true},
		"memory mode":           {card + "current_memory_partition", text("NPS5\n"), "", true},
		"name":                  {card + "product_name", sysroot.Binary, "", true},
		"size":                  {card + "mem_info_vram_total", sysroot.HugeNumber, "which is no size", true},
	}
	for name, damage := range sysroot.Damages {
		cases["unique_id "+name] = one{card + "unique_id", damage, "unique_id", slices.Contains([]string{"missing", "dangling"}, name)}
		cases["vendor "+name] = one{card + "vendor", damage, "vendor", false}
	}
	for name, c := range cases {
		tree := amdtree.New(t, amdtree.NewMI210())
		before := find(t, tree)
		if err := tree.Spoil(c.file, c.damage); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(name, err)
		}
		after := find(t, tree)
		at := drmAddress(t, "0000:03:00.0")
		if diff := cmp.Diff(others(before, at), others(after, at)); diff != "" {
			t.Errorf("%s: other GPUs differ:\n%s", name, diff)
		}
		lost := slices.ContainsFunc(after.Problems, func(p Problem) bool { return p.Lost })
		if stays := len(after.GPUs) == 8; stays != c.stays || stays == lost {
			t.Errorf("%s: the GPU stays: %t; problems %q", name, stays, texts(after.Problems))
		}
		if c.want != "" && !c.stays && !slices.ContainsFunc(texts(after.Problems), func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: problems %q, want %q", name, texts(after.Problems), c.want)
		}
	}
}

// A damaged partition is left out; its siblings keep their IDs.
func TestDamagedPartition(t *testing.T) {
	for i := range 16 {
		m, part := amdtree.NewMixed(), i%8
		m.HighIndex = i >= 8
		tree := amdtree.New(t, m)
		before := find(t, tree)
		if err := sysroot.Binary(filepath.Join(tree.Node(0, part), "properties")); err != nil {
			t.Fatal(err)
		}
		after := find(t, tree)
		var want []string
		for i, p := range before.GPUs[0].Partitions {
			if i != part {
				want = append(want, strings.Replace(sketch(p), "links=15", "links=14", 1))
			}
		}
		if got := found(after)["0000:05:00.0"]; !slices.Equal(got, want) {
			t.Errorf("without partition %d there are %q, want %q", part, got, want)
		}
	}
}

// A device of which two places report different things is left out.
func TestDisagreement(t *testing.T) {
	kfd := "sys/class/kfd/kfd/topology/nodes/"
	for name, c := range map[string]struct {
		file   string // of NewMixed: nodes 2 to 9 are the first card's partitions, 10 is the second card
		damage sysroot.Damage
		want   string
		lost   []string // addresses, or IDs of partitions
	}{
		"two nodes with a render node": {
			kfd + "3/properties", rewrite("drm_render_minor", "drm_render_minor 132"),
			"2 nodes have the render node renderD132", []string{"amdgpu-f000000000000001-cpx-1", "amdgpu-f000000000000001-cpx-2"},
		},
		"partition of another card": {
			kfd + "3/properties", rewrite("unique_id", "unique_id 2472748907779728154"), // unknown: its place identifies it
			"", nil,
		},
		"unique_id of another card": {
			kfd + "3/properties", rewrite("unique_id", fmt.Sprint("unique_id ", 0x8001)),
			"it reports the address 0000:05:00, but amdgpu_xcp_0 leads to 0001:05:00.0", []string{"amdgpu-f000000000000001-cpx-1"},
		},
		"whole card with unique_id of another": {
			kfd + "10/properties", rewrite("unique_id", fmt.Sprint("unique_id ", 0x8001)),
			"it has the unique_id of 0001:05:00.0, but its render node renderD138 is of 0000:27:00.0", []string{"amdgpu-2250f0000000001a"},
		},
		"place of another card": {
			kfd + "3/properties", rewrite("location_id", "location_id 9985"),
			"it reports the address 0000:27:00, but amdgpu_xcp_0 leads to 0000:05:00.0", []string{"amdgpu-f000000000000001-cpx-1"},
		},
		"render node of another driver": {
			kfd + "3/properties", rewrite("drm_render_minor", "drm_render_minor 128"),
			"0000:02:00.0, which is not among the cards of the driver amdgpu", []string{"amdgpu-f000000000000001-cpx-1"},
		},
		"one unique_id for two cards": {
			"sys/bus/pci/devices/0001:05:00.0/unique_id", text("f000000000000001\n"),
			"0000:05:00.0 and 0001:05:00.0 have the same unique_id f000000000000001", []string{"0000:05:00.0", "0001:05:00.0"},
		},
		"more nodes than the mode has": {
			"sys/bus/pci/devices/0000:05:00.0/current_compute_partition", text("SPX\n"),
			"KFD has 8 nodes of the card, which is in a mode (SPX) with 1", []string{"0000:05:00.0"},
		},
		"fewer nodes than the mode has": {
			"sys/bus/pci/devices/0001:05:00.0/current_compute_partition", text("QPX\n"),
			"only 2 of the 4 partitions of mode QPX are there", nil,
		},
	} {
		tree := amdtree.New(t, amdtree.NewMixed())
		before := find(t, tree)
		if err := tree.Spoil(c.file, c.damage); err != nil {
			t.Fatal(err)
		}
		after := find(t, tree)
		var lost []string
		for _, g := range before.GPUs {
			i := slices.IndexFunc(after.GPUs, func(a GPU) bool { return a.PCI.Address == g.PCI.Address })
			if i < 0 && len(g.Partitions) > 1 {
				lost = append(lost, g.PCI.Address.String())
				continue
			}
			for _, p := range g.Partitions {
				if i < 0 || (!slices.ContainsFunc(after.GPUs[i].Partitions, func(a Partition) bool { return a.Index == p.Index && a.Render == p.Render })) {
					lost = append(lost, p.ID)
				}
			}
		}
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%s: lost %q, want %q; problems %q", name, lost, c.lost, texts(after.Problems))
		}
		if c.want != "" && !slices.ContainsFunc(texts(after.Problems), func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: problems %q, want %q", name, texts(after.Problems), c.want)
		}
	}
}

// If nothing reports which partition a node is, minors are counted; without the first to count
// from, the card is left out.
func TestPartitionsWithoutNumbers(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewMixed())
	before := find(t, tree)
	for part := range 8 {
		if err := rewrite("location_id", "location_id 1280")(filepath.Join(tree.Node(0, part), "properties")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before.GPUs, find(t, tree).GPUs); diff != "" {
		t.Errorf("counted, the GPUs differ:\n%s", diff)
	}
	if err := os.RemoveAll(tree.Node(0, 0)); err != nil {
		t.Fatal(err)
	}
	if after := find(t, tree); len(after.GPUs) != 4 || !strings.Contains(strings.Join(texts(after.Problems), "\n"), "the first is missing") {
		t.Errorf("%d GPUs; problems %q", len(after.GPUs), texts(after.Problems))
	}
}
