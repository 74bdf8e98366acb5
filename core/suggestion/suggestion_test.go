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

// Verifies what is a slip of one name, and what is another name.
func TestIsMisspelt(t *testing.T) {
	for got, want := range map[string]bool{"nvida": true, "nvidai": true, "NVDIA": true, "nvidia2": true, "nvidia": false, "Nvidia": false, "nvidia-gpu": false, "amd": false, "": false} {
		if IsMisspelt(got, "nvidia") != want {
			t.Errorf("%q: %t", got, !want)
		}
	}
	if IsMisspelt("acme", "amd") {
		t.Error("acme is another name than amd")
	}
}

// Verifies that names are listed only if none is close, and the first of many.
func TestOrAll(t *testing.T) {
	many := strings.Split(strings.Repeat("name ", 100), " ")
	for _, c := range []struct {
		got   string
		names []string
		want  string
	}{
		{"gpv", []string{"gpu", "npu"}, `; did you mean "gpu"?`}, {"x", []string{"gpu", "npu"}, "; there are gpu, npu"}, {"c", []string{"a", "b"}, "; there are a, b"}, {"x", nil, ""},
		{"zzzzzzzz", many, "; there are " + strings.Repeat("name, ", 39) + "name ..."},
	} {
		if got := OrAll(c.got, "there are", c.names); got != c.want {
			t.Errorf("%q: %s, want %s", c.got, got, c.want)
		}
	}
}
