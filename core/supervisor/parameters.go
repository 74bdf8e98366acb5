package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxParametersSchema bounds the bytes of the schema of parameters, maxParameters
	// their number, and maxDescription the bytes of the description of one.
	maxParametersSchema = 64 << 10
	maxParameters       = 32
	maxDescription      = 512
)

// identifier is the syntax of parameters' names.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)

// parameters returns the properties of the schema of parameters, checked and sorted by
// name. The rest of the schema is for people and for the backend itself.
func parameters(d inventory.Description) ([]inventory.Parameter, error) {
	var schema struct {
		Type       string
		Properties map[string]struct {
			Description string
			Type        any
		}
	}
	source := d.ParametersSchema
	switch {
	case source == "":
		return nil, nil
	case !d.Prepare:
		return nil, errors.New("it describes parameters of Prepare, but does not implement Prepare")
	case len(source) > maxParametersSchema:
		return nil, fmt.Errorf("the schema of its parameters is %d bytes long; at most %d are possible", len(source), maxParametersSchema)
	}
	if err := json.Unmarshal([]byte(source), &schema); err != nil {
		return nil, fmt.Errorf("the schema of its parameters cannot be read: %s", text.Printable(err.Error(), 256))
	}
	if n := len(schema.Properties); schema.Type != "object" || n == 0 || n > maxParameters {
		return nil, fmt.Errorf("the schema of its parameters has the type %q and %d properties; it must be an object with 1 to %d",
			text.Printable(schema.Type, 64), n, maxParameters)
	}
	all := make([]inventory.Parameter, 0, len(schema.Properties))
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		description := schema.Properties[name].Description
		switch {
		case !identifier.MatchString(name):
			return nil, fmt.Errorf("it describes the parameter %q, which is not a C identifier of at most 32 characters", text.Printable(name, 64))
		case description == "" || len(description) > maxDescription || description != text.Printable(description, maxDescription):
			return nil, fmt.Errorf("it describes the parameter %s as %q, which is not 1 to %d printable bytes", name, text.Printable(description, 64), maxDescription)
		}
		all = append(all, inventory.Parameter{Name: name, Description: description, IsText: isText(schema.Properties[name].Type)})
	}
	return all, nil
}

// isText reports whether a property with this type in its schema may be a string; one
// without a type may.
func isText(of any) bool {
	several, ok := of.([]any)
	return of == nil || of == "string" || ok && slices.Contains(several, any("string"))
}
