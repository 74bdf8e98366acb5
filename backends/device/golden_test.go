package device

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/manifests"
)

var update = flag.Bool("update", false, "write the golden inventories")

// on returns the backend on a tree, and its engine's settings.
func on(t testing.TB, host sdk.HostPaths, settings string) (*Backend, *engine.Settings) {
	t.Helper()
	b := newBackend(slog.New(slog.DiscardHandler), match.Finder{Node: devicetree.Node}, (&ueventtest.Kernel{}).Listen)
	b.records = t.TempDir()
	if err := b.Configure(t.Context(), merged(t, settings), host); err != nil {
		t.Fatal(err)
	}
	return b, b.engineSettings()
}

// list returns the devices and problems of one scan.
func list(t testing.TB, host sdk.HostPaths, settings string) ([]*sdk.Device, []string) {
	t.Helper()
	_, set := on(t, host, settings)
	return engine.ListOnce(options, set)
}

var options = engine.Options{Log: slog.New(slog.DiscardHandler), Hardware: "device", Unit: "device", Part: "device"}

// Each preset finds on its tree (presets/testdata/NAME.tree) exactly what its golden inventory
// has, all with attributes that the manifest declares. -update writes the golden files.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("presets/testdata", name+".tree"))
			if err != nil {
				t.Fatal(err)
			}
			if presetDoc(t, name) == "" {
				t.Error("the file does not begin with a comment, its line of documentation")
			}
			settings := `{"presets": ["` + name + `"], "edits": {"groups": "none"}}`
			tree := devicetree.New(t, string(text))
			host := tree.Host()
			devices, problems := list(t, host, settings)
			manifests.Declared(t, manifests.Load(t, "manifest.yaml"), settings)(devices)
			got := bytes.ReplaceAll(golden(t, devices, problems), []byte(tree.Root), nil)
			file := filepath.Join("presets/testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// golden returns an inventory as JSON.
func golden(t *testing.T, devices []*sdk.Device, problems []string) []byte {
	t.Helper()
	var all struct {
		Devices  []any    `json:"devices"`
		Problems []string `json:"problems,omitempty"`
	}
	for _, d := range devices {
		all.Devices = append(all.Devices, plain(t, d))
	}
	all.Problems = problems
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// plain returns a message as JSON has it.
func plain(t *testing.T, m proto.Message) (value any) {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// The documentation has a line for each preset: that of its file, and what it was tried on.
func TestPresetsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/device.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range presetNames(t) {
		line := "| `" + name + "` | " + presetDoc(t, name) + " | "
		_, after, ok := strings.Cut(string(text), line)
		if tried, _, _ := strings.Cut(after, "\n"); !ok || strings.Trim(tried, " |") == "" || !strings.HasSuffix(tried, " |") {
			t.Errorf("docs/device.md lacks the line %s..., with what it was tried on", line)
		}
	}
}
