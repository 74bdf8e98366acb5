package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/suggestion"
)

// parametersJSON makes the JSON object that Prepare gets of the values of a resource's
// parameters, which are texts. A text becomes a string if the backend's schema allows one,
// and is JSON otherwise. Nil if there are none. The error is for the pod's user.
func parametersJSON(known []inventory.Parameter, values map[string]string) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(known, func(p inventory.Parameter) bool { return p.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("%s: correct the parameters of the resource in the node configuration", UnknownParameter(name, known))
		case known[i].IsText:
			object[name] = values[name]
		case !json.Valid([]byte(values[name])):
			return nil, fmt.Errorf("the parameter %s is %q; it must be JSON, such as 3, true or [1, 2]", name, values[name])
		default:
			object[name] = json.RawMessage(values[name])
		}
	}
	return json.Marshal(object)
}

// UnknownParameter describes, for the operator, a parameter that the backend does not have.
func UnknownParameter(name string, known []inventory.Parameter) string {
	if len(known) == 0 {
		return fmt.Sprintf("the backend does not know the parameter %s; it has none", name)
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return fmt.Sprintf("the backend does not know the parameter %s%s; it has %s", name, suggestion.DidYouMean(name, names), strings.Join(names, ", "))
}
