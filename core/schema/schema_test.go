package schema

import (
	"errors"
	"strings"
	"testing"
)

// Verifies that the value of one property is checked by that property's part of the schema alone,
// with what it refers to, and that the names in the message are those below the property.
func TestCheckProperty(t *testing.T) {
	const text = `{
		"$id": "https://example.com/parameters.json", "type": "object", "required": ["mode", "count"], "minProperties": 2,
		"properties": {
			"count": {"$ref": "#/$defs/count"},
			"mode": {"enum": ["a", "b"]},
			"window": {"type": "object", "required": ["size"], "properties": {"size": {"$ref": "#/$defs/count"}}}
		},
		"$defs": {"count": {"type": "integer", "minimum": 1}}
	}`
	for name, tc := range map[string]struct{ property, value, want string }{
		"a reference":              {"count", "3", ""},
		"a refused reference":      {"count", "0", "must be a whole number of at least 1, is 0"},
		"another type":             {"count", `"3"`, `must be a whole number of at least 1, is "3"; take the quotes away`},
		"an enumeration":           {"mode", `"a"`, ""},
		"not in the enumeration":   {"mode", `"c"`, `must be one of a, b, is "c"`},
		"required of the property": {"window", "{}", "needs the field size, a whole number of at least 1"},
		"an exponent":              {"count", "1e2", ""},
		"a huge number":            {"count", "1e999999", "the number 1e999999 is out of range: its exponent may be from -308 to 308"},
		"a tiny nested number":     {"window", `{"size": 1, "more": [0, -1E-999999]}`, "the number -1E-999999 is out of range"},
		"an exponent of 50 digits": {"count", "1e" + strings.Repeat("1", 50), "the number 1e11111111111111111111111111111111111... is out"},
		"a nested value":           {"window", `{"size": "x"}`, `size: must be a whole number of at least 1, is "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckProperty(t.Context(), text, tc.property, []byte(tc.value))
			var refused *RefusedError
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want it refused with %q", err, tc.want)
			}
		})
	}
	var refused *RefusedError
	if err := CheckProperty(t.Context(), text, "other", []byte("1")); err == nil || errors.As(err, &refused) {
		t.Errorf("a property that the schema does not have: %v, want an error that is no refusal", err)
	}
}
