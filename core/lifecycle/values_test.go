package lifecycle

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies what JSON the texts of parameters become, by the type in the backend's schema, and that the schema is applied.
func TestParametersJSON(t *testing.T) {
	known := inventory.Description{
		Parameters:       []inventory.Parameter{{Name: "count"}, {Name: "mode"}, {Name: "program", IsText: true}},
		ParametersSchema: `{"properties": {"count": {"type": "integer", "minimum": 1}}}`,
	}
	for name, c := range map[string]struct {
		values        map[string]string
		want, refused string
	}{
		"none":        {},
		"texts":       {map[string]string{"program": "3"}, `{"program":"3"}`, ""},
		"other types": {map[string]string{"count": "3", "mode": ` {"a": [true, null]}`, "program": `"x`}, `{"count":3,"mode":{"a":[true,null]},"program":"\"x"}`, ""},
		"refused":     {map[string]string{"count": "0"}, "", "the parameters of the container: count: must be a whole number of at least 1, is 0"},
		"no JSON":     {map[string]string{"count": "three"}, "", `the parameter count is "three"; it must be JSON, such as 3, true or [1, 2]`},
		"unknown":     {map[string]string{"cuont": "3"}, "", `the backend does not know the parameter cuont; did you mean "count"?: correct the parameters`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parametersJSON(t.Context(), known, c.values)
			if string(got) != c.want || (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s, %v; want %s, %q", got, err, c.want, c.refused)
			}
		})
	}
	if _, err := parametersJSON(t.Context(), inventory.Description{}, map[string]string{"a": "1"}); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("a backend without parameters: %v", err)
	}
}
