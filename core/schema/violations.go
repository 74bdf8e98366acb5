package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/accelmux/accelmux/core/suggestion"
)

// Violation is one thing that a schema refuses.
type Violation struct {
	// Field is the place in the value, such as "kinds[0].name"; "" for the whole value.
	Field string
	// Message is for people who do not know the schema.
	Message string
}

// Violations returns all that a schema refuses in a value, with suggestions for names and values that are misspelt.
// The errors are those of [Check], but for a value that the schema refuses.
func Violations(ctx context.Context, schema string, value []byte) ([]Violation, error) {
	return violations(ctx, schema, "", value)
}

func violations(ctx context.Context, schema, fragment string, value []byte) ([]Violation, error) {
	err := evaluated(ctx, schema, fragment, value)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return []Violation{{Message: refused.message}}, nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, err
	}
	e := explainer{}
	if e.schema, err = jsonschema.UnmarshalJSON(strings.NewReader(schema)); err != nil {
		return nil, err
	}
	if e.value, err = jsonschema.UnmarshalJSON(bytes.NewReader(value)); err != nil {
		return nil, err
	}
	return withoutMissing(e.violations(invalid)), nil
}

// withoutMissing leaves out the fields that an object needs if another is misspelt: it may be one of them.
func withoutMissing(all []Violation) []Violation {
	misspelt := map[string]bool{} // objects
	for _, v := range all {
		if strings.HasPrefix(v.Message, "unknown field") && strings.Contains(v.Message, "did you mean") {
			misspelt[v.Field[:max(strings.LastIndexByte(v.Field, '.'), 0)]] = true
		}
	}
	return slices.DeleteFunc(all, func(v Violation) bool { return misspelt[v.Field] && strings.HasPrefix(v.Message, needs) })
}

// explainer has a schema and a value that it refuses, as encoding/json has them, with numbers as json.Number.
type explainer struct{ schema, value any }

// violations returns those of an error without causes, or of its causes. Of alternatives it is the one that was
// understood best, or what all of them are if none was.
func (e explainer) violations(err *jsonschema.ValidationError) (all []Violation) {
	node, _ := e.part(err.SchemaURL).(map[string]any)
	causes := err.Causes
	switch kind := err.ErrorKind.(type) {
	case *schemakind.AnyOf, *schemakind.OneOf:
		best := slices.MaxFunc(append(causes, err), func(a, b *jsonschema.ValidationError) int { return depth(a) - depth(b) })
		if fits := e.ofType(causes, e.at(err.InstanceLocation)); len(fits) == 1 {
			best = fits[0]
		} else if depth(best) == len(err.InstanceLocation) {
			return []Violation{{e.field(err.InstanceLocation), e.alternatives(node, e.at(err.InstanceLocation), len(causes) == 0)}}
		}
		causes = []*jsonschema.ValidationError{best}
	case *schemakind.PropertyNames:
		names, _ := node["propertyNames"].(map[string]any)
		if names == nil {
			names = node
		}
		return []Violation{{e.field(append(slices.Clone(err.InstanceLocation), kind.Property)), "the name must be " + e.wanted(names) + ", is " + shown(kind.Property)}}
	case *schemakind.AdditionalProperties:
		for _, name := range kind.Properties {
			all = append(all, e.unknownField(node, append(slices.Clone(err.InstanceLocation), name))...)
		}
		return all
	case *schemakind.FalseSchema: // of unevaluatedProperties
		if parent, ok := strings.CutSuffix(err.SchemaURL, "/unevaluatedProperties"); ok {
			return e.unknownField(e.part(parent), err.InstanceLocation)
		}
	}
	for _, cause := range causes {
		all = append(all, e.violations(cause)...)
	}
	if len(causes) > 0 {
		return all
	}
	return []Violation{{e.field(err.InstanceLocation), e.message(err.ErrorKind, node, e.at(err.InstanceLocation))}}
}

// ofType returns the errors of the alternatives that are for a mapping or a list, if the value is one.
func (e explainer) ofType(alternatives []*jsonschema.ValidationError, value any) (fits []*jsonschema.ValidationError) {
	switch value.(type) {
	case map[string]any, []any:
		for _, a := range alternatives {
			if !ofOtherType(a) {
				fits = append(fits, a)
			}
		}
	}
	return fits
}

// ofOtherType reports whether a value has none of the types that it may have.
func ofOtherType(err *jsonschema.ValidationError) bool {
	if len(err.Causes) == 0 {
		_, ok := err.ErrorKind.(*schemakind.Type)
		return ok
	}
	return !slices.ContainsFunc(err.Causes, func(cause *jsonschema.ValidationError) bool {
		return len(cause.InstanceLocation) > len(err.InstanceLocation) || !ofOtherType(cause)
	})
}

// unknownField returns the violation of a field that an object's schema does not have. There is none if it has the field: no
// field is evaluated by a part of the schema that another field violates.
func (e explainer) unknownField(node any, at []string) []Violation {
	name := at[len(at)-1]
	fields := properties(e.schema, node, maxParts)
	known := slices.Sorted(maps.Keys(fields))
	if slices.Contains(known, name) {
		return nil
	}
	places := map[string][]string{}
	for _, field := range known {
		places[field] = slices.Collect(maps.Keys(properties(e.schema, fields[field], maxParts)))
	}
	if message := suggestion.Misplaced(name, places); message != "" && suggestion.Closest(name, known) == "" {
		return []Violation{{e.field(at), message}}
	}
	return []Violation{{e.field(at), suggestion.UnknownField(name, known)}}
}

// part returns the part of the schema at a URL of the library.
func (e explainer) part(url string) any {
	_, fragment, _ := strings.Cut(url, "#")
	return part(e.schema, fragment)
}

// at returns the part of the value at a place.
func (e explainer) at(place []string) any {
	value := e.value
	for _, step := range place {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	return value
}

// depth is how deep in the value an error is.
func depth(e *jsonschema.ValidationError) int {
	deepest := len(e.InstanceLocation)
	for _, cause := range e.Causes {
		deepest = max(deepest, depth(cause))
	}
	return deepest
}

// part returns the part of a schema at a JSON pointer; nil if there is none.
func part(schema any, pointer string) any {
	for _, step := range strings.FieldsFunc(pointer, func(r rune) bool { return r == '/' }) {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch at := schema.(type) {
		case map[string]any:
			schema = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			schema = at[i]
		default:
			return nil
		}
	}
	return schema
}

// maxParts bounds the depth of the parts of a schema that refer to each other.
const maxParts = 8

// properties returns those that an object may have by a part of a schema, and by what that refers to.
func properties(schema, at any, depth int) map[string]any {
	all := map[string]any{}
	object, ok := at.(map[string]any)
	if !ok || depth == 0 {
		return all
	}
	parts, _ := object["allOf"].([]any)
	if reference, ok := object["$ref"].(string); ok && strings.HasPrefix(reference, "#") {
		parts = append(slices.Clone(parts), part(schema, reference[1:]))
	}
	for _, other := range parts {
		maps.Copy(all, properties(schema, other, depth-1))
	}
	own, _ := object["properties"].(map[string]any)
	maps.Copy(all, own)
	return all
}

// field joins the steps to a place in the value: a number is an item of a list, or a name in a mapping.
func (e explainer) field(steps []string) string {
	var field strings.Builder
	for i, step := range steps {
		switch _, isList := e.at(steps[:i]).([]any); {
		case isList:
			field.WriteString("[" + step + "]")
		case field.Len() > 0:
			field.WriteString("." + step)
		default:
			field.WriteString(step)
		}
	}
	return field.String()
}

// shown returns a value for a message: a mapping and a list by what they are.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return quote(v)
	}
	return fmt.Sprint(value)
}
