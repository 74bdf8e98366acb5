package kfd

import (
	"testing"

	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/amdtree"
)

// seeds adds all files of a kind of a small machine.
func seeds(f *testing.F, parts ...string) {
	tree := amdtree.New(f, amdtree.NewVega10())
	for _, part := range parts {
		b, err := sysfs.Read(tree.Node(0, 0)+part, sysfs.Limit)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{"", "\n", "simd_count 4\n", "simd_count 18446744073709551616\n", "a b", "\x00\xff\n", "type  11\n"} {
		f.Add([]byte(s))
	}
}

// A node that is accepted is valid, and is not accepted when its end is missing.
func FuzzNode(f *testing.F) {
	seeds(f, "/properties")
	f.Fuzz(func(t *testing.T, text []byte) {
		var n Node
		if n.parse(text) != nil {
			return
		}
		if n.IsGPU() && (n.ComputeUnits() == 0 || n.ComputeUnits()*n.SIMDsPerCU != n.SIMDs || n.RenderMinor > maxMinor) {
			t.Errorf("%q was read as %+v", text, n)
		}
		if new(Node).parse(text[:len(text)-1]) == nil {
			t.Errorf("%q was read without its last byte, too", text)
		}
	})
}

// A link that is accepted starts at its node and ends at another.
func FuzzLink(f *testing.F) {
	seeds(f, "/io_links/0/properties")
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLink(blank(), text, 1)
		if err != nil {
			return
		}
		if l.To == 1 || l.To < 0 || l.Kind.String() == "" {
			t.Errorf("%q was read as %+v", text, l)
		}
		if _, err := parseLink(blank(), text[:len(text)-1], 1); err == nil {
			t.Errorf("%q was read without its last byte, too", text)
		}
	})
}
