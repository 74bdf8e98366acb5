package amdtree

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func write(t *testing.T, m Machine) *Tree {
	t.Helper()
	tree, err := Write(TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// list is every path of the tree, with what links point to.
func list(t *testing.T, tree *Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tree.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(tree.Root, path)
		if e.Type()&fs.ModeSymlink != 0 {
			if all[name], err = os.Readlink(path); err != nil {
				return err
			}
			if _, err := filepath.EvalSymlinks(path); err != nil {
				t.Errorf("a link that leads nowhere: %v", err)
			}
		} else if name != ".staging" {
			all[name] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// renders are the render minors that KFD has, by node.
func renders(t *testing.T, tree *Tree) []int {
	t.Helper()
	var all []int
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(tree.Root, nodesDir, strconv.Itoa(i), "properties"))
		if err != nil {
			return all
		}
		p, err := parse(string(b))
		if err != nil {
			t.Fatal(err)
		}
		if p["drm_render_minor"] > 0 {
			all = append(all, int(p["drm_render_minor"]))
		}
	}
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
		p, err := parse(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		kind := filepath.Base(filepath.Dir(filepath.Dir(file)))
		counts[fmt.Sprintf("%s type %d weight %d", kind, p["type"], p["weight"])]++
	}
	return counts
}

// The machine that is described with eight MI300X in CPX is the one that was
// captured, one partition missing, and in SPX it has sparse minors.
func TestPartitions(t *testing.T) {
	cpx := write(t, NewMI300X("CPX", "NPS4"))
	got := renders(t, cpx)
	if len(got) != 63 || slices.Min(got) != 128 || slices.Max(got) != 190 {
		t.Errorf("CPX has the render minors %v, want 128 to 190", got)
	}
	want := map[string]int{
		"io_links type 1 weight 32": 2, "io_links type 2 weight 20": 126, "p2p_links type 2 weight 52": 126,
		"io_links type 11 weight 13": 434, "io_links type 11 weight 41": 3472,
	}
	if got := linkCounts(t, cpx); !maps.Equal(got, want) {
		t.Errorf("links are %v, want %v", got, want)
	}
	if got, want := renders(t, write(t, NewMI300X("SPX", "NPS1"))), []int{128, 136, 144, 152, 160, 168, 176, 184}; !slices.Equal(got, want) {
		t.Errorf("SPX has the render minors %v, want %v", got, want)
	}
}
