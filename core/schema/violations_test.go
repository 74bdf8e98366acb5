package schema

import (
	"fmt"
	"testing"
)

// Verifies that all that is wrong is named, with its place and what may have been meant.
func TestViolations(t *testing.T) {
	const schema = `{"type": "object", "additionalProperties": false, "properties": {
		"rows": {"type": "object", "additionalProperties": {"type": "string"}}, "rescan": {"type": "string"}, "mig": {"type": "object", "additionalProperties": false, "properties": {"strategy": {"enum": ["none", "single", "mixed"]}}},
		"devices": {"type": "array", "items": {"$ref": "#/$defs/device"}}, "size": {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}]}},
		"$defs": {"device": {"type": "object", "additionalProperties": false, "properties": {"count": {"type": "integer", "minimum": 1}}}}}`
	const composed = `{"allOf": [{"$ref": "#/$defs/group"}], "properties": {"kinds": {}}, "unevaluatedProperties": false, "$defs": {"group": {"properties": {"count": {}, "size": {"type": "object"}}}}}`
	if got, err := Violations(t.Context(), composed, []byte(`{"cuont": 1, "kinds": 1}`)); err != nil || fmt.Sprint(got) != `[{cuont unknown field "cuont"; did you mean "count"?}]` {
		t.Errorf("of a schema in parts: %v, %v", got, err)
	}
	if got, err := Violations(t.Context(), composed, []byte(`{"count": 1, "size": 1}`)); err != nil || fmt.Sprint(got) != `[{size must be a mapping, is 1}]` {
		t.Errorf("of a part that another field violates: %v, %v", got, err)
	}
	for value, want := range map[string]string{
		`{"rescan": "1s", "mig": {"strategy": "none"}}`: "[]",
		`{"rescna": "1s", "mig": {"strategy": "mixd"}}`: `[{mig.strategy must be one of none, single, mixed, is "mixd"; did you mean "mixed"?} {rescna unknown field "rescna"; did you mean "rescan"?}]`,
		`{"devices": [{"count": 1}, {"cuont": 2}]}`:     `[{devices[1].cuont unknown field "cuont"; did you mean "count"?}]`,
		`{"devices": [{"count": 0, "zzzzzz": 1}]}`:      `[{devices[0].zzzzzz unknown field "zzzzzz"; the fields here are count} {devices[0].count must be a whole number of at least 1, is 0}]`,
		`{"mig": {"strategy": 1}}`:                      `[{mig.strategy must be one of none, single, mixed, is 1}]`,
		`{"rows": {"79": 1}}`:                           `[{rows.79 must be a text, is 1; put it in quotes}]`,
		`{"size": {}}`:                                  `[{size needs the field of, a text}]`,
		`{"size": []}`:                                  `[{size must be a whole number or a mapping with the field of, is a list}]`,
		`{"size": {"of": 1}}`:                           `[{size.of must be a text, is 1; put it in quotes}]`,
		`[]`:                                            `[{ must be a mapping with the fields devices, mig, rescan, rows, size, is a list}]`,
		`{"rescan": 1e999}`:                             `[{ the number 1e999 is out of range: its exponent may be from -308 to 308}]`,
	} {
		// The order of the fields of an object is not given.
		got, err := Violations(t.Context(), schema, []byte(value))
		reversed := fmt.Sprint(got)
		if len(got) == 2 {
			reversed = fmt.Sprint([]Violation{got[1], got[0]})
		}
		if text := fmt.Sprint(got); err != nil || text != want && reversed != want {
			t.Errorf("%s: %v, %s, want %s", value, err, text, want)
		}
	}
	if _, err := Violations(t.Context(), `{"$ref": "https://example.com/x"}`, []byte("{}")); err == nil {
		t.Error("a schema that cannot be used is no error")
	}
}
