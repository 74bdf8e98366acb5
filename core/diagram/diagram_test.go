package diagram

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/test/machines"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestMachines verifies the drawings of existing machines.
func TestMachines(t *testing.T) {
	for name, units := range map[string][]Used{
		"dgx1": use(dgx1(), []int{2}, []int{5}),
		"h100": switched(),
		"pcie": use(pcie(), []int{0, 1}, nil),
		"cpx":  use(cpx(), []int{0, 1, 17}, []int{63}),
	} {
		t.Run(name, func(t *testing.T) {
			d := Describe(resource(units, topology.BestLinks))
			var text bytes.Buffer
			Matrix(&text, &d, Short)
			fmt.Fprintln(&text)
			Tree(&text, &d, Short)
			golden(t, name+".txt", text.Bytes())
		})
	}
}

// TestLarge verifies that drawings of 512 different devices fit a page and count what they
// omit, and that wide drawings show everything.
func TestLarge(t *testing.T) {
	units := machine(machines.New(512, func(a, b int) inventory.Link {
		return inventory.Link{Kind: "xgmi", Count: 1 + (min(a, b)*7919^max(a, b)*104729)>>4%7}
	}))
	d := Describe(resource(units, topology.BestLinks))
	for size, want := range map[Size]int{Short: 32, Wide: 512} {
		var matrix, tree bytes.Buffer
		Matrix(&matrix, &d, size)
		Tree(&tree, &d, size)
		if n := strings.Count(matrix.String(), "gpu"); n != want+1 { // and the title's
			t.Errorf("wide: %v: the matrix has %d devices, want %d", size, n-1, want)
		}
		if left := strings.Contains(matrix.String(), "480 devices are left out"); left != (size == Short) {
			t.Errorf("wide: %v: left out: %v:\n%.2000s", size, left, matrix.String())
		}
		if n := strings.Count(tree.String(), "\n"); size == Short && n > 20 || size == Wide && n < 512 {
			t.Errorf("wide: %v: the tree has %d lines", size, n)
		}
	}
}

// TestLinks verifies that the worse direction of a pair counts, that one direction alone is
// no link, and that links of a device to itself or to unknown devices are left out.
func TestLinks(t *testing.T) {
	link := func(peer, kind string, count, distance int) inventory.Link {
		return inventory.Link{Peer: peer, Kind: kind, Count: count, Distance: distance}
	}
	links := map[string][]inventory.Link{
		"a":   {link("b", "nvlink", 4, 0), link("b", "nvlink", 2, 0), link("a", "nvlink", 1, 0), link("x", "nvlink", 1, 0)},
		"b":   {link("a", "nvlink", 3, 0), link("a10", "custom", 0, 7)},
		"a10": {link("a", "xgmi", 1, 30), link("b", "custom", 0, 5)},
		"a9":  {link("b", "xgmi", 1, 15)},
		"c":   {link("a9", "xgmi", 1, 15), link("a10", "xgmi", 1, 30)},
	}
	links["a9"] = append(links["a9"], link("c", "xgmi", 1, 15))
	links["a10"] = append(links["a10"], link("c", "xgmi", 1, 30))
	var units []Used
	for id, l := range links {
		units = append(units, free(&inventory.Device{Key: inventory.Key{Backend: "test", ID: id}, Links: l}))
	}
	d := Describe(resource(units, topology.None))
	want := []Link{
		{A: "a", B: "b", Kind: "nvlink", Count: 3, Weight: 300},
		{A: "a9", B: "b", Kind: "xgmi", Count: 1, Distance: 15, OneWay: true},
		{A: "a9", B: "c", Kind: "xgmi", Count: 1, Distance: 15, Weight: 85},
		{A: "a10", B: "a", Kind: "xgmi", Count: 1, Distance: 30, OneWay: true},
		{A: "a10", B: "b", Kind: "custom", Count: 1, Distance: 7, Weight: 93},
		{A: "a10", B: "c", Kind: "xgmi", Count: 1, Distance: 30, Weight: 70},
	}
	if diff := cmp.Diff(want, d.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	Matrix(&text, &d, Short)
	golden(t, "links.txt", text.Bytes())
}

// TestJSON verifies the fields of the JSON of topology and its explanation, which scripts read.
func TestJSON(t *testing.T) {
	choice, err := Explain(t.Context(), resource(use(pcie(), []int{0}, nil), topology.BestLinks), Question{Size: 2, Must: []string{"gpu01"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"topology.json": Describe(resource(use(pcie()[:4], []int{0}, []int{3}), topology.Pack)), "choice.json": choice,
	} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, append(text, '\n'))
	}
}
