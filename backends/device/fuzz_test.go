package device

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
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
	cfg, err := configure(merged(f, `{"presets": ["`+strings.Join(presetNames(f), `", "`)+`"]}`), sdk.HostPaths{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree := devicetree.Tree{Root: sysroot.TempDir(t)}
		if err := tree.Write(text); err != nil {
			return // no tree
		}
		here := *cfg
		here.host = tree.Host()
		b := newBackend(slog.New(slog.DiscardHandler), match.Finder{Node: devicetree.Node}, nil)
		b.cfg, b.records = &here, t.TempDir()
		set := b.engineSettings()
		for _, driver := range set.Drivers {
			s, _ := driver.(source)
			for _, u := range s.Scan(nil).Units {
				valid(t, u)
				s.Measure(u, u.ID)
			}
		}
		engine.ListOnce(options, set)
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
