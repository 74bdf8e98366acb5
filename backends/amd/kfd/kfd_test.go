package kfd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// must reads a topology that is whole.
func must(t testing.TB, tree *amdtree.Tree) Topology {
	t.Helper()
	got, err := Read(tree.Sysfs())
	if err != nil || got.Torn || len(got.Problems) > 0 {
		t.Fatalf("%v, torn %t, problems %v", err, got.Torn, got.Problems)
	}
	return got
}

func blank() *properties { return &properties{values: map[string]uint64{}} }

func gpus(topology Topology) []Node {
	return slices.DeleteFunc(slices.Clone(topology.Nodes), func(n Node) bool { return !n.IsGPU() })
}

// A partition of an MI300X has its properties, and the distances to the others.
func TestPartition(t *testing.T) {
	m := amdtree.NewMI300X("CPX", "NPS4")
	topology := must(t, amdtree.New(t, m))
	all := gpus(topology)
	if len(all) != 63 || len(topology.Nodes) != 65 {
		t.Fatalf("%d GPUs of %d nodes, want 63 of 65", len(all), len(topology.Nodes))
	}
	n := all[9] // the second partition of the second card
	if n.ID == 0 || n.ID == all[8].ID {
		t.Errorf("the IDs of events are %d and %d", all[8].ID, n.ID)
	}
	links := n.Links
	n.Links, n.ID = nil, 0
	want := Node{
		Number: 11, UniqueID: m.GPUs[1].UniqueID, SIMDs: 152, SIMDsPerCU: 4, XCCs: 1, GFXVersion: 90402, Vendor: 0x1002, Device: 0x74a1,
		Location: 0x2701, HasDomain: true, RenderMinor: 137, Hive: 0xd2c9000000000077, VRAM: 24 << 30,
	}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("the node differs (-want +got):\n%s", diff)
	}
	if n.ComputeUnits() != 38 || n.GFX() != "gfx942" {
		t.Errorf("%d compute units of %s, want 38 of gfx942", n.ComputeUnits(), n.GFX())
	}
	for to, want := range map[int]Link{
		0:  {To: 0, Kind: PCIe, Weight: 20},
		1:  {To: 1, Kind: PCIe, Weight: 52, Peer: true},
		10: {To: 10, Kind: XGMI, Weight: 13},
		64: {To: 64, Kind: XGMI, Weight: 41},
	} {
		i := slices.IndexFunc(links, func(l Link) bool { return l.To == to })
		if i < 0 || links[i] != want {
			t.Errorf("links are %v, want %v", links, want)
		}
	}
	if len(links) != 64 {
		t.Errorf("%d links, want 64", len(links))
	}
}

// Damage to a file affects its node or its link, with the file's name; all others are read as
// before.
func TestDamage(t *testing.T) {
	for name, damage := range sysroot.Damages {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				file     string
				link     bool
				harmless []string
			}{
				{file: "properties"},
				// Captures leave out the ID, banks or links.
				{file: "gpu_id", harmless: []string{"missing", "dangling"}},
				{file: "mem_banks/0/properties"},
				{file: "mem_banks", harmless: []string{"missing", "dangling", "directory", "truncated", "binary", "huge number", "endless", "empty"}},
				{file: "io_links/1/properties", link: true},
				{file: "io_links", link: true, harmless: []string{"missing", "dangling", "directory", "truncated", "binary", "huge number", "endless", "empty"}},
			} {
				tree := amdtree.New(t, amdtree.NewMI210())
				before := must(t, tree)
				path := filepath.Join(tree.Node(2, 0), c.file)
				if err := damage(path); err != nil && !slices.Contains(c.harmless, name) {
					t.Fatal(err)
				}
				after, err := Read(tree.Sysfs())
				if err != nil || after.Torn {
					t.Fatalf("%s: %v, torn %t", c.file, err, after.Torn)
				}
				if slices.Contains(c.harmless, name) {
					if len(after.Problems) > 0 || len(after.Nodes) != len(before.Nodes) {
						t.Errorf("%s: problems %v", c.file, after.Problems)
					}
					continue
				}
				if len(after.Problems) != 1 || after.Problems[0].Node != 4 || after.Problems[0].Link != c.link || !strings.Contains(after.Problems[0].Err.Error(), "/nodes/4/"+c.file+":") {
					t.Errorf("%s: problems %v, want one of node 4 that names it", c.file, after.Problems)
				}
				others := func(n Node) bool { return n.Number == 4 }
				if diff := cmp.Diff(slices.DeleteFunc(before.Nodes, others), slices.DeleteFunc(slices.Clone(after.Nodes), others)); diff != "" {
					t.Errorf("%s: other nodes differ:\n%s", c.file, diff)
				}
				if still := slices.ContainsFunc(after.Nodes, others); still != c.link {
					t.Errorf("%s: node 4 is there: %t", c.file, still)
				}
			}
		})
	}
}

// A node with an impossible number is refused, with the number.
func TestAbsurdNumbers(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(amdtree.New(t, amdtree.NewMI210()).Node(0, 0), "properties"))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"simd_count 18446744073709551615":     "simd_count is 18446744073709551615",
		"simd_count 415":                      "415 SIMDs are not whole compute units",
		"simd_per_cu 0":                       "not whole compute units",
		"drm_render_minor 4294967424":         "drm_render_minor is 4294967424",
		"location_id 4294967296":              "location_id is 4294967296",
		"vendor_id 65536":                     "vendor_id is 65536",
		"unique_id 18446744073709551616":      "unique_id: \"18446744073709551616\" has more than 64 bits",
		"unique_id -1":                        "unique_id: \"-1\" is no number",
		"unique_id ":                          "unique_id: \"\" is no number",
		"unique_id 1\nunique_id 2":            "unique_id a second time",
		"gfx_target_version 0x1":              "\"0x1\" is no number",
		"hive_id 1 2":                         "\"1 2\" is no number",
		"Simd_count 1":                        "want a name and a number",
		"":                                    "want a name and a number",
		"location_id_of_something_else 1e999": "", // unknown names are ignored
	} {
		key, _, _ := strings.Cut(line, " ")
		lines, replaced := strings.Split(string(whole), "\n"), false
		for i := range lines {
			if strings.HasPrefix(lines[i], key+" ") && !replaced {
				lines[i], replaced = line, true
			}
		}
		if !replaced {
			lines[3] += "\n" + line
		}
		err := new(Node).parse([]byte(strings.Join(lines, "\n")))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// A change during a pass is seen: nodes that are made again, even where the number of the
// generation is the same before and after.
func TestTorn(t *testing.T) {
	for name, change := range map[string]func(*amdtree.Tree) error{
		"switched":   func(tree *amdtree.Tree) error { return tree.SwitchPartition(0, "DPX", "") },
		"generation": func(tree *amdtree.Tree) error { return tree.SetFile("sys/class/kfd/kfd/topology/generation_id", "9\n") },
		"unloaded":   func(tree *amdtree.Tree) error { return os.RemoveAll(directory(tree.Sysfs())) },
		"made again": func(tree *amdtree.Tree) error {
			node := tree.Node(3, 0)
			return errors.Join(os.Rename(node, filepath.Join(tree.Root, "old")), os.Mkdir(node, 0o700))
		},
		"": func(*amdtree.Tree) error { return nil },
	} {
		tree := amdtree.New(t, amdtree.NewMI300X("SPX", "NPS1"))
		got, err := read(tree.Sysfs(), func() {
			if err := change(tree); err != nil {
				t.Error(err)
			}
		})
		if err != nil || got.Torn != (name != "") || got.Generation != 2 {
			t.Errorf("%q: torn %t, generation %d, %v", name, got.Torn, got.Generation, err)
		}
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read without a driver: %v", err)
	}
	if _, err := Generation(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Generation without a driver: %v", err)
	}
	tree := amdtree.New(t, amdtree.NewVega10())
	if n, err := Generation(tree.Sysfs()); n != 2 || err != nil {
		t.Errorf("the generation is %d, %v", n, err)
	}
	nodes := filepath.Join(directory(tree.Sysfs()), "nodes")
	for i := range maxNodes {
		if err := os.Mkdir(filepath.Join(nodes, fmt.Sprintf("x%d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(tree.Sysfs()); err == nil || !strings.Contains(err.Error(), "more than the 1024 that can be") {
		t.Errorf("too many nodes: %v", err)
	}
}

func TestGFX(t *testing.T) {
	for version, want := range map[uint32]string{90000: "gfx900", 90008: "gfx908", 90010: "gfx90a", 90402: "gfx942", 90500: "gfx950", 100300: "gfx1030", 120001: "gfx1201", 0: ""} {
		if got := (Node{GFXVersion: version}).GFX(); got != want {
			t.Errorf("%d is %q, want %q", version, got, want)
		}
	}
}
