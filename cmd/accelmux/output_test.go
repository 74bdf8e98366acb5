package main

import (
	"bytes"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/status/listing"
)

// Verifies that a list that is printed element by element is the list as a whole.
func TestYAMLOfLists(t *testing.T) {
	for name, value := range map[string]any{
		"devices": []listing.Device{
			{Backend: "mock", ID: "a", NUMANodes: []int{0, 1}, Attributes: map[string]any{"model": "x: y", "text": "a\nb"}},
			{Backend: "mock", ID: "b", Faults: []listing.Fault{{Code: "x"}, {Code: "y", Message: "- no"}}},
			{},
		},
		"texts":     []string{"a", "", "- b", "c\nd"},
		"none":      []listing.Device{},
		"no list":   listing.Device{ID: "a"},
		"bare list": []int(nil),
	} {
		want, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := printYAML(&got, value); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, &got, want)
		}
	}
}
