package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/schema"
)

// parametersJSON makes the JSON object that Prepare gets of the values of a resource's
// parameters, which are texts. A text becomes a string if the backend's schema allows one,
// and is JSON otherwise; the schema must accept the object. Nil if there are none. The error is for the pod's user.
func parametersJSON(ctx context.Context, d inventory.Description, values map[string]string) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	known, object := d.Parameters, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(known, func(p inventory.Parameter) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s: correct the parameters of the resource in the node configuration", inventory.UnknownParameter(name, known))
		}
		value, err := known[i].JSON(values[name])
		if err != nil {
			return nil, err
		}
		object[name] = value
	}
	encoded, err := json.Marshal(object)
	if err == nil {
		err = schema.Check(ctx, d.ParametersSchema, encoded)
	}
	if err != nil {
		return nil, fmt.Errorf("the parameters of the container: %w", err)
	}
	return encoded, nil
}
