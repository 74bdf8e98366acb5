package deployments

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// code is what a document shows as it is: blocks and spans.
var code = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]*`")

// anchors are the names of a document's headings, as GitHub makes them.
func anchors(document string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		name := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(heading[1], "")
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(name), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// brokenLinks are a document's links within the repository that lead nowhere.
func brokenLinks(t *testing.T, document, text string) (broken []string) {
	t.Helper()
	for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		path, anchor, _ := strings.Cut(link[1], "#")
		target, headings := filepath.Join(filepath.Dir(document), path), text
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			broken = append(broken, link[1])
			continue
		}
		if path != "" && anchor != "" {
			headings = string(read(t, target))
		}
		if anchor != "" && !anchors(headings)[anchor] {
			broken = append(broken, link[1])
		}
	}
	return broken
}

// TestLinks verifies that the links of all documents lead to files and headings that exist, and
// that docs/README.md has a link to each document beside it.
func TestLinks(t *testing.T) {
	index := string(read(t, "docs/README.md"))
	for _, document := range documents(t) {
		for _, link := range brokenLinks(t, document, string(read(t, document))) {
			t.Errorf("%s: broken link %s", document, link)
		}
		if dir, name := filepath.Split(document); dir == "docs/" && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
	const text = "# A `b`, c\n[1](#a-b-c) [2](#a-b) [3](docs) [4](no-such.md) [5](docs/dra.md#links) [6](docs/dra.md#no) `[7](no)` [8](https://example.com)\n"
	if broken := strings.Join(brokenLinks(t, "README.md", text), " "); broken != "#a-b no-such.md docs/dra.md#no" {
		t.Errorf("broken links: %s", broken)
	}
}
