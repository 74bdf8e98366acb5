package supervisor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// FieldError is what is wrong with one field of a backend's settings.
type FieldError struct {
	// Field is the field's path, such as "devices[2].memory"; "" for the whole.
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// SettingsError says that settings were refused, by the backend's schema or by
// the backend itself.
type SettingsError struct {
	Fields []FieldError
}

// Error lists the fields in one sentence.
func (e *SettingsError) Error() string {
	const most = 8
	var parts []string
	for _, field := range e.Fields[:min(len(e.Fields), most)] {
		if field.Field == "" {
			parts = append(parts, field.Message)
		} else {
			parts = append(parts, field.Field+": "+field.Message)
		}
	}
	if more := len(e.Fields) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "the settings are refused: " + strings.Join(parts, "; ")
}

// refusal turns the backend's own field errors into an error, nil if it has none.
func refusal(fields []*backendv1.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	const most = 64
	refused := &SettingsError{}
	for _, field := range fields[:min(len(fields), most)] {
		refused.Fields = append(refused.Fields, FieldError{
			Field: printable(field.GetField(), 128), Message: printable(field.GetMessage(), 512),
		})
	}
	return refused
}

// errBrokenSchema says that a schema could not be used; the settings then go to
// the backend unchecked.
var errBrokenSchema = errors.New("the backend describes its settings with a JSON schema that cannot be used")

// checkSettings checks settings against a backend's JSON schema. It returns nil,
// a *SettingsError, or an error that is errBrokenSchema, as after the limit: a hostile
// schema could make the check arbitrarily long.
func checkSettings(schema string, settings json.RawMessage, limit time.Duration) error {
	if schema == "" {
		return nil
	}
	result := make(chan error, 1)
	go func() {
		defer func() {
			// The schema is a stranger's, and its compiler a large library.
			if r := recover(); r != nil {
				result <- fmt.Errorf("%w: %s", errBrokenSchema, printable(fmt.Sprint(r), 256))
			}
		}()
		result <- validate(schema, settings)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: checking the settings takes longer than %s", errBrokenSchema, limit)
	}
}

// noLoader keeps a schema from reading files and URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and may refer only to itself", printable(url, 128))
}

func validate(schema string, settings json.RawMessage) error {
	const where = "settings-schema.json"
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return fmt.Errorf("%w: %w", errBrokenSchema, err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(where, document); err != nil {
		return fmt.Errorf("%w: %w", errBrokenSchema, err)
	}
	compiled, err := compiler.Compile(where)
	if err != nil {
		return fmt.Errorf("%w: %w", errBrokenSchema, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return &SettingsError{Fields: []FieldError{{Message: "they are not JSON: " + err.Error()}}}
	}
	err = compiled.Validate(value)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		if cyclic(invalid) {
			return fmt.Errorf("%w: it refers to itself without end", errBrokenSchema)
		}
		return &SettingsError{Fields: leaves(invalid.DetailedOutput())}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBrokenSchema, err)
	}
	return nil
}

// cyclic reports whether the schema, not the value, is what is wrong.
func cyclic(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*schemakind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, cyclic)
}

// leaves are the errors at the ends of the tree: those above only say that
// something below is wrong. A value that no schema allows is an unknown field,
// unless something else is wrong, too: then it may be known to the part of the
// schema that failed.
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
			field.Message = printable(unit.Error.String(), 512)
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
	return slices.Compact(wrong)
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
	return printable(path.String(), 128)
}

// canonical brings settings into one form, so that a change of layout or of the
// order of keys is none. What is not JSON stays as it is, and is refused later.
func canonical(settings json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(settings)) == 0 {
		return json.RawMessage("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return bytes.Clone(settings)
	}
	same, err := json.Marshal(value)
	if err != nil {
		return bytes.Clone(settings)
	}
	if string(same) == "null" {
		return json.RawMessage("{}")
	}
	return same
}
