package device

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/manifests"
)

// merged returns settings with presets as the backend gets them: with plain kinds.
func merged(tb testing.TB, settings string) json.RawMessage {
	tb.Helper()
	return manifests.Merged(tb, manifests.Load(tb, "manifest.yaml"), settings)
}

// presetNames returns the names of all presets, sorted.
func presetNames(tb testing.TB) []string {
	tb.Helper()
	return slices.Sorted(maps.Keys(manifests.Load(tb, "manifest.yaml").Presets))
}

// presetDoc returns a preset's line of documentation, which is the first comment of its file; "" if there is none.
func presetDoc(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("presets", name+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	doc, _ := strings.CutPrefix(line, "# ")
	return doc
}
