package text

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// Verifies that nothing of a decoder or of Go's types is in the text.
func TestOfDecoding(t *testing.T) {
	type Inner struct {
		Number int `json:"number"`
	}
	type outer struct {
		Inner
		Lists []Inner `json:"lists"`
	}
	for input, want := range map[string]string{
		"number: a":            "the field number has the wrong type: string",
		"lists: 5":             "the field lists has the wrong type: number",
		"lists: [{number: a}]": "the field lists.number has the wrong type: string",
		"other: 5":             `unknown field "other"`,
		"a: [":                 "line 1: did not find expected node content",
	} {
		err := yaml.UnmarshalStrict([]byte(input), new(outer))
		if err == nil || OfDecoding(err) != want {
			t.Errorf("%s: %v\nwant %s", input, err, want)
		}
	}
}
