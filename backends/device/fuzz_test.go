package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/presets"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Whatever a tree is, each preset lists it without a panic, and what it lists has valid IDs and
// nodes below /dev.
func FuzzTree(f *testing.F) {
	trees, err := filepath.Glob("presets/testdata/*.tree")
	if err != nil {
		f.Fatal(err)
	}
	for _, tree := range trees {
		text, err := os.ReadFile(tree)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(acme)
	f.Fuzz(func(t *testing.T, text string) {
		tree := devicetree.Tree{Root: sysroot.TempDir(t)}
		if err := tree.Write(text); err != nil {
			t.Skip(err)
		}
		settings := `{"presets": ["` + strings.Join(presets.Names(), `", "`) + `"]}`
		_, set := on(t, tree.Host(), settings)
		for _, driver := range set.Drivers {
			s, _ := driver.(source)
			for _, u := range s.Scan(nil).Units {
				valid(t, u)
				s.Measure(u, u.ID)
			}
		}
		list(t, tree.Host(), settings)
	})
}

func valid(t *testing.T, u engine.Unit) {
	t.Helper()
	if len(u.ID) > maxID || u.ID == "" || strings.Contains(u.ID, "::") {
		t.Errorf("ID %q", u.ID)
	}
	for _, n := range u.Devices[0].Edits.GetDeviceNodes() {
		if !strings.HasPrefix(n.GetPath(), "/dev/") || strings.Contains(n.GetPath(), "..") {
			t.Errorf("node %v", n)
		}
	}
}
