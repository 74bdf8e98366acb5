package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

const (
	// maxParametersSchema bounds the bytes of the schema of parameters, maxParameters
	// their number, and maxDescription the bytes of the description of one.
	maxParametersSchema = 64 << 10
	maxParameters       = 32
	maxDescription      = 512
	// maxParametersJSON bounds the bytes of the parameters of one Prepare.
	maxParametersJSON = 10 << 10
)

// identifier is the syntax of parameters' names.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)

// parameters returns the properties of the schema of parameters, checked and sorted by
// name. The rest of the schema is checked only when parameters are checked against it.
func parameters(d inventory.Description) ([]inventory.Parameter, error) {
	var schema struct {
		Type       string
		Properties map[string]struct {
			Description string
			Type        any
		}
	}
	text := d.ParametersSchema
	switch {
	case text == "":
		return nil, nil
	case !d.Prepare:
		return nil, errors.New("it describes parameters of Prepare, but does not implement Prepare")
	case len(text) > maxParametersSchema:
		return nil, fmt.Errorf("the schema of its parameters is %d bytes long; at most %d are possible", len(text), maxParametersSchema)
	}
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		return nil, fmt.Errorf("the schema of its parameters cannot be read: %s", printable(err.Error(), 256))
	}
	if n := len(schema.Properties); schema.Type != "object" || n == 0 || n > maxParameters {
		return nil, fmt.Errorf("the schema of its parameters has the type %q and %d properties; it must be an object with 1 to %d",
			printable(schema.Type, 64), n, maxParameters)
	}
	all := make([]inventory.Parameter, 0, len(schema.Properties))
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		text := schema.Properties[name].Description
		switch {
		case !identifier.MatchString(name):
			return nil, fmt.Errorf("it describes the parameter %q, which is not a C identifier of at most 32 characters", printable(name, 64))
		case text == "" || len(text) > maxDescription || text != printable(text, maxDescription):
			return nil, fmt.Errorf("it describes the parameter %s as %q, which is not 1 to %d printable bytes", name, printable(text, 64), maxDescription)
		}
		all = append(all, inventory.Parameter{Name: name, Description: text, IsText: isText(schema.Properties[name].Type)})
	}
	return all, nil
}

// isText reports whether a property with this type in its schema may be a string; one
// without a type may.
func isText(of any) bool {
	several, ok := of.([]any)
	return of == nil || of == "string" || ok && slices.Contains(several, any("string"))
}

// checkParameters refuses parameters that the schema of the running backend does not
// accept. The error is for the pod's user.
func (s *Supervisor) checkParameters(ctx context.Context, backend string, parameters json.RawMessage) error {
	if len(parameters) == 0 {
		return nil
	}
	if len(parameters) > maxParametersJSON {
		return fmt.Errorf("the parameters have %d bytes as JSON; at most %d are possible", len(parameters), maxParametersJSON)
	}
	b, err := s.backend(backend)
	if err != nil {
		return err
	}
	i, err := b.enter(func(d inventory.Description) bool { return d.Prepare })
	if err != nil {
		return err
	}
	text := i.desc.ParametersSchema
	i.finish()
	if text == "" {
		return errors.New("the backend takes no parameters: remove those of the resource from the node configuration")
	}
	fields, err := checkAgainst(ctx, s.reaper, text, parameters, maxCheck)
	if err != nil {
		return fmt.Errorf("the parameters could not be checked against the backend's schema: %w", err)
	}
	if len(fields) == 0 {
		return nil
	}
	return errors.New("the parameters are refused: " + fieldList(fields))
}
