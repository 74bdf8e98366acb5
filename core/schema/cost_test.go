package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Verifies that a schema or a value whose evaluation would not end within a bound is refused before it begins, at any
// property as well.
func TestBombs(t *testing.T) {
	chain := func(draft, last string, step func(next string) string) string {
		var defs []string
		for i := range 40 {
			defs = append(defs, fmt.Sprintf(`"d%d": %s`, i, step(fmt.Sprintf(`{"$ref": "#/$defs/d%d"}`, i+1))))
		}
		return fmt.Sprintf(`{"$schema": %q, "type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {%s, "d40": %s}}`, draft, strings.Join(defs, ","), last)
	}
	const draft7, draft2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
	twice := func(keyword string) func(string) string {
		return func(next string) string { return fmt.Sprintf(`{%q: [%s, {"allOf": [%[2]s]}]}`, keyword, next) }
	}
	deep := `{"x": ` + strings.Repeat(`{"a": `, 60) + "1" + strings.Repeat("}", 61)
	for name, tc := range map[string]struct{ schema, value, want string }{
		"all":           {chain(draft2020, `{"type": "string"}`, twice("allOf")), `{"x": "a"}`, "evaluates more than 1000000 of its parts"},
		"none of any":   {chain(draft2020, `false`, twice("anyOf")), `{"x": "a"}`, "evaluates more than"},
		"an old draft":  {chain(draft7, `{"not": {}}`, twice("anyOf")), `{"x": "a"}`, "evaluates more than"},
		"conditions":    {chain(draft2020, `true`, func(next string) string { return fmt.Sprintf(`{"if": %s, "then": %[1]s, "else": %[1]s}`, next) }), `{"x": "a"}`, "evaluates more than"},
		"in the value":  {`{"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/a"}}}, {"additionalProperties": {"$ref": "#/$defs/a"}}]}}}`, deep, "evaluates more than"},
		"a deep value":  {`{"properties": {"x": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}`, `{"x": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", ""},
		"a deep schema": {`{"properties": {"x": {"$ref": "#/$defs/l"}}, "$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}}`, `{"x": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "has more than 64 levels"},
		"many patterns": {`{"properties": {"x": {"patternProperties": {` + patterns(3000) + `}}}}`, `{"x": {` + fields(3000) + `}}`, "evaluates more than"},
		"many objects":  {`{"properties": {"x": {"patternProperties": {` + patterns(9000) + `}}}}`, `{}`, "more than 8192 objects"},
		"a large enum":  {`{"properties": {"x": {"items": {"enum": ["` + strings.Repeat("a", 100_000) + `"]}}}}`, `{"x": [` + strings.Repeat("1,", 1000) + `1]}`, "evaluates more than"},
		"dynamic":       {`{"properties": {"x": {"$dynamicRef": "#a"}}}`, `{"x": 1}`, "use $ref"},
		"an anchor":     {`{"properties": {"x": {"$ref": "#a"}}}`, `{"x": 1}`, "may refer only to itself, as in #/$defs/name"},
		"in itself":     {`{"properties": {"x": {"$ref": "#/properties/x"}}}`, `{"x": 1}`, "refers to itself without end"},
		"harmless":      {chain(draft2020, `true`, func(next string) string { return next }), `{"x": 1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Violations(t.Context(), tc.schema, []byte(tc.value)); tc.want != "has more than 64 levels" && !says(err, tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			value := strings.TrimSuffix(strings.TrimPrefix(tc.value, `{"x": `), "}")
			var refused *RefusedError
			if err := CheckProperty(t.Context(), tc.schema, "x", []byte(value)); name != "many objects" && !says(err, tc.want) && (tc.want != "" || !errors.As(err, &refused)) {
				t.Errorf("of the property: got %v, want %q", err, tc.want)
			}
		})
	}
}

func says(err error, want string) bool {
	return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
}

func patterns(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"^%d": {"type": "string"}`, i)
	}
	return strings.Join(all, ",")
}

func fields(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"%d": "a"`, i)
	}
	return strings.Join(all, ",")
}
