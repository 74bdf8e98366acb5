package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// FieldError is what is wrong with one field of a backend's settings.
type FieldError struct {
	// Field is the field's path, such as "devices[2].memory"; "" for the whole.
	Field string `json:"field"`
	// Message is the error, with what is allowed.
	Message string `json:"message"`
}

const (
	// maxFields bounds the reported errors of a check, and maxText the bytes of a field's
	// path or message.
	maxFields = 64
	maxText   = 1024
)

// noLoader keeps a schema from reading files and URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and may refer only to itself", url)
}

// validate returns the errors of the settings. The error is about the schema. Time and memory
// are not bounded.
func validate(schema string, settings json.RawMessage) ([]FieldError, error) {
	const where = "settings-schema.json"
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(where, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(where)
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return nil, fmt.Errorf("the settings are not valid JSON: %w", err)
	}
	err = compiled.Validate(value)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	if cyclic(invalid) {
		return nil, errors.New("it refers to itself without end")
	}
	return leaves(invalid.DetailedOutput()), nil
}

// cyclic reports whether the schema, not the value, is wrong.
func cyclic(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*schemakind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, cyclic)
}

// leaves returns the leaves of the tree of errors: the nodes above only summarize them. A
// value that no schema allows is an unknown field, unless there are other errors, too: then
// the part of the schema that failed may define it.
func leaves(unit *jsonschema.OutputUnit) []FieldError {
	var wrong, unknown []FieldError
	var walk func(unit *jsonschema.OutputUnit)
	walk = func(unit *jsonschema.OutputUnit) {
		for i := range unit.Errors {
			walk(&unit.Errors[i])
		}
		if len(unit.Errors) > 0 || unit.Error == nil {
			return
		}
		field := FieldError{Field: fieldPath(unit.InstanceLocation)}
		switch unit.Error.Kind.(type) {
		case *schemakind.FalseSchema:
			field.Message = "unknown field"
			unknown = append(unknown, field)
		default:
			field.Message = cut(unit.Error.String())
			wrong = append(wrong, field)
		}
	}
	walk(unit)
	if len(wrong) == 0 {
		wrong = unknown
	}
	slices.SortFunc(wrong, func(a, b FieldError) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	wrong = slices.Compact(wrong)
	return wrong[:min(len(wrong), maxFields)]
}

// fieldPath turns the JSON pointer /devices/2/memory into devices[2].memory.
func fieldPath(pointer string) string {
	var path strings.Builder
	for i, token := range strings.Split(pointer, "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch {
		case i == 0:
		case token != "" && strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
		default:
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			path.WriteString(token)
		}
	}
	return cut(path.String())
}

// cut returns the first maxText bytes of text.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }
