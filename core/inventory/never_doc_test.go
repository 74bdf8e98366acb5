package inventory

import (
	"os"
	"strings"
	"testing"
)

// Verifies that the manifest's document has the whole list of what nobody gets.
func TestNeverIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []struct {
		title    string
		patterns []string
	}{
		{"what controls the node, credentials", neverReached},
		{"memory and the kernel", neverNodes},
		{"disks", disks},
		{"what root runs", neverWritten},
		{"files of other processes", neverMounted},
		{"variables", neverSet},
	} {
		row := "| " + list.title + " | `" + strings.Join(list.patterns, "`, `") + "` |\n"
		if !strings.Contains(string(document), row) {
			t.Errorf("docs/manifest.md must have the row\n%s", row)
		}
	}
}
