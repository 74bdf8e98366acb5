package inventory

import (
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
