package suggestion

import (
	"strings"
	"testing"
)

// Verifies how many edits are accepted: more in a long name than in a short one.
func TestDidYouMean(t *testing.T) {
	names := []string{"replicas", "selector", "name", "gpu"}
	for got, want := range map[string]string{
		"replica":  `; did you mean "replicas"?`,
		"Repliacs": `; did you mean "replicas"?`,
		"NAME":     `; did you mean "name"?`,
		"nmae":     `; did you mean "name"?`,
		"gqu":      `; did you mean "gpu"?`,
		"cpx":      "",
		"gpu":      "",
		"settings": "",
		"":         "",

		"replicas" + strings.Repeat("x", 64): "",
	} {
		if hint := DidYouMean(got, names); hint != want {
			t.Errorf("%q: %q, want %q", got, hint, want)
		}
	}
	if hint := DidYouMean("gpu", nil); hint != "" {
		t.Errorf("without names: %q", hint)
	}
}

// Verifies that the closest name is found, and none for a name that is not close.
func TestClosest(t *testing.T) {
	names := []string{"name", "backend", "maxReplicasPerContainer"}
	for got, want := range map[string]string{
		"nmae": "name", "Name": "name", "backends": "backend", "maxReplicaPerContainer": "maxReplicasPerContainer",
		"colour": "", "x": "", strings.Repeat("n", 1000): "",
	} {
		if s := Closest(got, names); s != want {
			t.Errorf("Closest(%.20q) = %q, want %q", got, s, want)
		}
	}
}
