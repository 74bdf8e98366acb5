package inventory

import (
	"encoding/json"
	"fmt"

	"github.com/accelmux/accelmux/core/suggestion"
)

// UnknownParameter describes, for the operator, a parameter that the backend does not have.
func UnknownParameter(name string, known []Parameter) string {
	if len(known) == 0 {
		return fmt.Sprintf("the backend does not know the parameter %s; it has none", name)
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return fmt.Sprintf("the backend does not know the parameter %s%s", name, suggestion.OrAll(name, "it has", names))
}

// JSON returns a value of the parameter as Prepare gets it: a text as a string if that is possible, and JSON otherwise. The error
// is for the author of the value.
func (p Parameter) JSON(value string) (json.RawMessage, error) {
	switch {
	case p.IsText:
		return json.Marshal(value)
	case !json.Valid([]byte(value)):
		return nil, fmt.Errorf("the parameter %s is %q; it must be JSON, such as 3, true or [1, 2]", p.Name, value)
	}
	return json.RawMessage(value), nil
}
