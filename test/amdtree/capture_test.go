package amdtree

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

func captured(t *testing.T, name string) *Tree {
	t.Helper()
	m, err := Capture(sysroot.Captured(t, "amd/"+name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return New(t, m)
}

// linkCounts counts links by directory, type and weight.
func linkCounts(t *testing.T, tree *Tree) map[string]int {
	t.Helper()
	counts := map[string]int{}
	files, err := filepath.Glob(filepath.Join(tree.Root, nodesDir, "*", "*_links", "*", "properties"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		kind := filepath.Base(filepath.Dir(filepath.Dir(file)))
		counts[fmt.Sprintf("%s type %d weight %d", kind, p["type"], p["weight"])]++
	}
	return counts
}

// The KFD side of a captured machine is the capture to the byte, but for GPUs that were moved
// from another GPU's address.
func TestCapture(t *testing.T) {
	for name, wantMoved := range map[string]int{"topology-parsing": 1, "topo-mi210-xgmi-pcie": 0, "topo-mi300-cpx": 0} {
		tree, raw := captured(t, name), &capture{files: map[string]string{}}
		if err := raw.unpack(sysroot.Captured(t, "amd/"+name+".tar.gz")); err != nil {
			t.Fatal(err)
		}
		moved := 0
		for file, text := range raw.files {
			got, err := os.ReadFile(filepath.Join(tree.Root, topologyDir, file))
			if err != nil {
				t.Error(err)
			}
			if string(got) != text {
				moved++
			}
		}
		if moved != wantMoved {
			t.Errorf("%s: %d files are not as they were captured, want %d", name, moved, wantMoved)
		}
	}
}

// The rules by which machines are made give the links that were captured, also of a captured
// machine that was switched: from then on it is made by them.
func TestRulesAreTheCaptures(t *testing.T) {
	switched := captured(t, "topo-mi300-cpx")
	for _, mode := range []string{"SPX", "CPX"} {
		if err := switched.SwitchPartition(3, mode, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		made    *Tree
		capture string
	}{
		{New(t, NewMI210()), "topo-mi210-xgmi-pcie"},
		{New(t, NewMI300X("CPX", "NPS4")), "topo-mi300-cpx"},
		{switched, "topo-mi300-cpx"},
	} {
		got, want := linkCounts(t, c.made), linkCounts(t, captured(t, c.capture))
		if c.capture == "topo-mi300-cpx" { // which has no directory of such links
			maps.DeleteFunc(got, func(kind string, _ int) bool { return strings.HasPrefix(kind, "p2p") })
		}
		if !maps.Equal(got, want) {
			t.Errorf("links are %v, in %s were %v", got, c.capture, want)
		}
	}
}
