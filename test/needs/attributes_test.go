package needs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/test/manifests"
)

// Verifies that the documents of the backends and their manifests have the same attributes and capacities: each declared one
// is in the document, and each of a table there is declared.
func TestAttributesAreDeclaredAndDocumented(t *testing.T) {
	name := regexp.MustCompile("`([A-Za-z0-9_]+)`")
	for backend := range backends() {
		if backend == "device" { // its settings define them
			continue
		}
		all := manifests.Load(t, source(backend)).Description.Attributes
		if len(all) == 0 {
			t.Errorf("%s declares nothing", backend)
		}
		document, err := os.ReadFile(filepath.Join("../../backends", backend, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		declared := map[string]map[string]bool{"attribute": {}, "capacity": {}}
		for _, d := range all {
			what := "attribute"
			if d.Kind == inventory.CapacityKind {
				what = "capacity"
			}
			declared[what][d.Name] = true
			if !strings.Contains(string(document), "`"+d.Name+"`") {
				t.Errorf("%s declares the %s %s, which is not in its README.md", backend, what, d.Name)
			}
		}
		for _, table := range strings.Split(string(document), "\n\n") {
			header, rows, _ := strings.Cut(table, "\n")
			what, _, _ := strings.Cut(strings.TrimPrefix(header, "| "), " ")
			if names := declared[what]; names != nil && strings.HasPrefix(header, "| ") {
				for row := range strings.Lines(rows) {
					for _, found := range name.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
						if !names[found[1]] {
							t.Errorf("%s has the %s %s in its README.md, and does not declare it", backend, what, found[1])
						}
					}
				}
			}
		}
	}
}
