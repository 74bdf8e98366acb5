package deployments

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fence is a code block of a document, with the indentation of its first line.
var fence = regexp.MustCompile("(?ms)^( *)```(?:yaml|sh)\n(.*?)^ *```$")

// configurations are the node configurations in a document: those that are whole, also in
// a here-document of a shell, and the parts of one, completed.
func configurations(document string) []string {
	const header = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\n"
	var all []string
	for _, block := range fence.FindAllStringSubmatch(document, -1) {
		text := dedent(block[2])
		_, whole, ok := strings.Cut("\n"+text, "\n"+header)
		if ok {
			whole, _, _ = strings.Cut(whole, "\nEOF\n")
			all = append(all, header+whole)
			continue
		}
		// [...] stands for what the document leaves out.
		text = strings.ReplaceAll(text, "[...]", "[{name: mock}]")
		backends := regexp.MustCompile(`(?m)^ *backends:`).MatchString(text)
		switch key, _, _ := strings.Cut(text, ":"); {
		case key == "profiles" && backends:
			all = append(all, header+text)
		case key == "profiles":
			all = append(all, header+text+"    backends: [{name: mock}]\n")
		case key == "backends" || key == "resources":
			if !backends {
				text += "backends: [{name: mock}, {name: nvidia}]\n"
			}
			all = append(all, header+"profiles:\n  - name: default\n    "+strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
	return all
}

// dedent takes the indentation of the first line away from every line.
func dedent(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return strings.ReplaceAll(strings.TrimPrefix(text, indent), "\n"+indent, "\n")
}

// documents are all documents of the repository, also those that are not committed yet.
func documents(t *testing.T) []string {
	t.Helper()
	return strings.Fields(must(t, "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"))
}

// TestDocumentedConfigurations verifies that the agent accepts every node configuration
// that a document shows, and every part of one.
func TestDocumentedConfigurations(t *testing.T) {
	found := 0
	for _, document := range documents(t) {
		for i, text := range configurations(string(read(t, document))) {
			found++
			t.Run(fmt.Sprintf("%s %d", document, i), func(t *testing.T) {
				must(t, filepath.Join(bin, "accelmux"), "validate", write(t, "node.yaml", text))
			})
		}
	}
	if found < 14 {
		t.Errorf("only %d configurations were found in the documents", found)
	}
	broken := "```yaml\nbackends:\n  - {name: mock, setings: {}}\n```\n"
	if _, err := command(t.Context(), filepath.Join(bin, "accelmux"), "validate", write(t, "node.yaml", configurations(broken)[0])); err == nil {
		t.Error("an unknown field was accepted")
	}
}

// TestDocumentedObjects verifies that the API server's types have every field of the objects that
// a document shows whole.
func TestDocumentedObjects(t *testing.T) {
	found := 0
	for _, document := range documents(t) {
		for _, block := range fence.FindAllStringSubmatch(string(read(t, document)), -1) {
			text := dedent(block[2])
			if !strings.HasPrefix(text, "apiVersion: ") || strings.HasPrefix(text, "apiVersion: accelmux.io/") || strings.HasPrefix(text, "apiVersion: backend.accelmux.io/") {
				continue // core/manifest tests those of backends
			}
			found++
			if _, err := decodeStrict([]byte(text)); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d objects were found in the documents", found)
	}
}
