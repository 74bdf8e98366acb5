package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// place is a piece of hardware: a card in its slot, and which part of it.
type place struct {
	address, compute string
	index            int
}

// places returns where the IDs are.
func places(t interface {
	Fatalf(string, ...any)
}, inventory Inventory,
) map[string]place {
	all := map[string]place{}
	for _, g := range inventory.GPUs {
		for _, p := range g.Partitions {
			compute := g.Compute
			if compute == whole {
				compute = ""
			}
			if other, twice := all[p.ID]; twice {
				t.Fatalf("%s is at %v and at %s", p.ID, other, g.PCI.Address)
			}
			all[p.ID] = place{g.PCI.Address.String(), compute, p.Index}
		}
	}
	return all
}

// In any order of discovery, after reloads, switches of modes and hot-plugs, one ID is one piece
// of hardware, and a piece that is there has its ID again.
func TestStableIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := amdtree.NewMixed()
		m.NoUniqueID = rapid.Bool().Draw(t, "no unique_id")
		m.XCDIdentity = rapid.Bool().Draw(t, "XCD identity")
		m.HighIndex = rapid.Bool().Draw(t, "high index")
		m.Dotted = rapid.Bool().Draw(t, "dotted")
		// A card with eight partitions, one with two, one without, in three PCI domains.
		m.GPUs = rapid.Permutation([]amdtree.GPU{m.GPUs[0], m.GPUs[2], m.GPUs[3]}).Draw(t, "order of discovery")
		m.Renders = rapid.SliceOfNDistinct(rapid.IntRange(128, 150), 0, 6, rapid.ID[int]).Draw(t, "render minors of others")
		dir, err := sysroot.MakeTemp()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		tree, err := amdtree.Write(dir, m)
		if err != nil {
			t.Fatal(err)
		}
		ids, hardware := map[string]place{}, map[place]string{}
		scan := func() {
			got, err := Read(tree.Sysfs(), nil)
			if err != nil || got.Unstable || slices.ContainsFunc(got.Problems, func(p Problem) bool { return p.Lost }) {
				t.Fatalf("%v, unstable %t, problems %q", err, got.Unstable, texts(got.Problems))
			}
			for id, at := range places(t, got) {
				if known, ok := ids[id]; ok && known != at {
					t.Fatalf("%s was %v and is %v", id, known, at)
				}
				if known, ok := hardware[at]; ok && known != id {
					t.Fatalf("%v had the ID %s and has %s", at, known, id)
				}
				ids[id], hardware[at] = at, id
			}
		}
		scan()
		for step := range rapid.IntRange(1, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, len(m.GPUs)-1).Draw(t, fmt.Sprintf("card of change %d", step))
			switch rapid.SampledFrom([]string{"reload", "switch", "unplug"}).Draw(t, fmt.Sprintf("change %d", step)) {
			case "reload":
				all := []int{0, 1, 2}
				order := rapid.Permutation(all).Draw(t, "order")
				err = tree.ReloadDriver(order...)
			case "switch":
				if modes := m.GPUs[at].Model.Compute; modes != nil {
					err = tree.SwitchPartition(at, rapid.SampledFrom(modes).Draw(t, "mode"), "")
				}
			case "unplug":
				err = errors.Join(tree.Unplug(at), tree.Plug(at))
			}
			if err != nil {
				t.Fatal(err)
			}
			scan()
		}
	})
}

// truth returns the partition of each render node by the files alone: the ID of the card at
// KFD's place of the node, and that place.
func truth(t *testing.T, sysfs string) map[int]string {
	t.Helper()
	all := map[int]string{}
	nodes, err := filepath.Glob(filepath.Join(sysfs, "class/kfd/kfd/topology/nodes/*/properties"))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		b, err := os.ReadFile(node)
		if err != nil {
			t.Fatal(err)
		}
		p := map[string]int{}
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			p[key], _ = strconv.Atoi(value)
		}
		at := fmt.Sprintf("%04x:%02x:%02x.0", p["domain"], p["location_id"]>>8&0xff, p["location_id"]>>3&0x1f)
		id, err := os.ReadFile(filepath.Join(sysfs, "bus/pci/devices", at, "unique_id"))
		if err == nil {
			all[p["drm_render_minor"]] = fmt.Sprintf("amdgpu-%s %d", strings.TrimSpace(string(id)), p["location_id"]&7)
		}
	}
	return all
}

// In each half state of a change the devices that are found are right, and a card that is there
// only in part is left out.
func TestHalfway(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewMixed())
	states := map[string]bool{}
	tree.Halfway = func(state string) {
		states[state] = true
		got, err := Read(tree.Sysfs(), nil)
		if err != nil || got.Unstable {
			t.Errorf("%s: %v, unstable %t", state, err, got.Unstable)
		}
		right := truth(t, tree.Sysfs())
		for _, g := range got.GPUs {
			for _, p := range g.Partitions {
				if want := fmt.Sprintf("%s %d", g.ID, p.Index); right[p.Render] != want {
					t.Errorf("%s: renderD%d is of %q, and was found as %q", state, p.Render, right[p.Render], want)
				}
			}
		}
	}
	if err := errors.Join(tree.SwitchPartition(0, "SPX", "NPS1"), tree.SwitchPartition(1, "CPX", "NPS4"), tree.Unplug(2), tree.Plug(2),
		tree.ReloadDriver(4, 2, 1, 3, 0)); err != nil {
		t.Fatal(err)
	}
	if len(states) != 6 {
		t.Errorf("states were %v, want 6", states)
	}
}
