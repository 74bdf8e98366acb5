package suggestion

import (
	"strings"
	"testing"
)

// Verifies how many edits are accepted: more in a long name than in a short one.
func TestDidYouMean(t *testing.T) {
	names := []string{"replicas", "selector", "name", "gpu", "maxReplicasPerContainer"}
	for got, want := range map[string]string{
		"replica":                `; did you mean "replicas"?`,
		"Repliacs":               `; did you mean "replicas"?`,
		"NAME":                   `; did you mean "name"?`,
		"nmae":                   `; did you mean "name"?`,
		"gqu":                    `; did you mean "gpu"?`,
		"cpx":                    "",
		"gpu":                    "",
		"settings":               "",
		"replicass":              `; did you mean "replicas"?`,
		"maxReplicaPerContainer": `; did you mean "maxReplicasPerContainer"?`,
		"":                       "",

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
