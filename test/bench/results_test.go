package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// TestWritten verifies that a section's lines replace its own and leave the others', in
// the order of the sections, in both files.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	results, readme := filepath.Join(dir, "results.json"), filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("before\n"+tablesBegin+tablesEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := sections[0], sections[1]
	write := func(s rig.Section, f ...rig.Figure) {
		t.Helper()
		if err := writeResults(results, s.Name, f); err != nil {
			t.Fatal(err)
		}
		if err := writeTable(readme, s, "a machine", f); err != nil {
			t.Fatal(err)
		}
	}
	write(second, rig.Figure{What: "other", Value: 3, Unit: "MB"})
	write(first, rig.Figure{What: "old", Value: 1, Unit: "ms"})
	write(first, rig.Figure{What: "new", Value: 123.456, Unit: "µs", Floor: 100, Times: 1.2, Samples: 7},
		rig.Figure{What: "plain", Value: 0.01234, Unit: "%", Limit: 0.1})

	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"name": first.Name + ": new", "value": 123.5, "unit": "µs", "floor": 100.0, "limit": 120.0, "met": false},
		{"name": first.Name + ": plain", "value": 0.01234, "unit": "%", "floor": nil, "limit": 0.1, "met": true},
		{"name": second.Name + ": other", "value": 3.0, "unit": "MB", "floor": nil, "limit": nil, "met": nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, not %d:\n%s", len(got), len(want), text)
	}
	for i, line := range got {
		for key, value := range want[i] {
			if line[key] != value {
				t.Errorf("line %d: %s is %v, not %v", i, key, line[key], value)
			}
		}
	}

	if text, err = os.ReadFile(readme); err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for _, part := range []string{
		"before\n", tablesBegin, heading + first.Name, "| new | 123 µs | 100 µs | 1.23 | 1.2 × | MISSED | 7 |",
		"| plain | 0.0123 % |  |  | 0.1 % | met |  |", heading + second.Name, "| other | 3.00 MB |  |  |  |  |  |", tablesEnd + "after\n",
	} {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("%q is missing, or not in its place, in:\n%s", part, text)
		}
		rest = after
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("a line that was replaced is there still:\n%s", text)
	}
}

// TestNames verifies that the lines of a section are told apart by its name, and that an
// unknown name is refused.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sections {
		if s.Name == "" || strings.ContainsAny(s.Name, " :,") || seen[s.Name] {
			t.Errorf("the name %q is not one word of its own", s.Name)
		}
		seen[s.Name] = true
	}
	if _, err := choose("nothing"); err == nil {
		t.Error("a section that there is not was chosen")
	}
	chosen, err := choose(sections[1].Name + "," + sections[0].Name)
	if err != nil || len(chosen) != 2 || chosen[0].Name != sections[0].Name {
		t.Errorf("chosen are %v, %v", chosen, err)
	}
}
