package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/accelmux/accelmux/core/suggestion"
)

// Violation is one thing that a schema refuses.
type Violation struct {
	// Field is the place in the value, such as "kinds[0].name"; "" for the whole value.
	Field   string
	Message string
}

// Violations returns all that a schema refuses in a value, with suggestions for names and values that are misspelt.
// The errors are those of [Check], but for a value that the schema refuses.
func Violations(ctx context.Context, schema string, value []byte) ([]Violation, error) {
	err := evaluated(ctx, schema, "", value)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return []Violation{{Message: refused.message}}, nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, err
	}
	var document any
	if err := json.Unmarshal([]byte(schema), &document); err != nil {
		return nil, err
	}
	return violations(document, invalid), nil
}

// violations returns those of an error without causes, or of its causes. Of alternatives it is the one that was
// understood best.
func violations(schema any, e *jsonschema.ValidationError) (all []Violation) {
	causes := e.Causes
	switch e.ErrorKind.(type) {
	case *schemakind.AnyOf, *schemakind.OneOf:
		if len(causes) > 0 {
			causes = []*jsonschema.ValidationError{slices.MaxFunc(causes, func(a, b *jsonschema.ValidationError) int { return depth(a) - depth(b) })}
		}
	}
	for _, cause := range causes {
		all = append(all, violations(schema, cause)...)
	}
	if len(causes) > 0 {
		return all
	}
	field := fieldOf(e.InstanceLocation)
	switch kind := e.ErrorKind.(type) {
	case *schemakind.AdditionalProperties:
		for _, name := range kind.Properties {
			all = append(all, unknownField(schema, e.SchemaURL, append(slices.Clone(e.InstanceLocation), name))...)
		}
		return all
	case *schemakind.FalseSchema: // of unevaluatedProperties
		if parent, ok := strings.CutSuffix(e.SchemaURL, "/unevaluatedProperties"); ok {
			return unknownField(schema, parent, e.InstanceLocation)
		}
	case *schemakind.Enum:
		var names []string
		for _, want := range kind.Want {
			names = append(names, fmt.Sprint(want))
		}
		return []Violation{{field, fmt.Sprintf("must be one of %s, is %v%s", strings.Join(names, ", "), shown(kind.Got), suggestion.DidYouMean(fmt.Sprint(kind.Got), names))}}
	}
	return []Violation{{field, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}}
}

func shown(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(value)
}

// unknownField returns the violation of a field that an object's schema, at a URL, does not have. There is none if it has
// the field: no field is evaluated by a part of the schema that another field violates.
func unknownField(schema any, url string, at []string) []Violation {
	name := at[len(at)-1]
	_, fragment, _ := strings.Cut(url, "#")
	known := slices.Sorted(maps.Keys(properties(schema, part(schema, fragment), maxParts)))
	if slices.Contains(known, name) {
		return nil
	}
	return []Violation{{fieldOf(at), suggestion.UnknownField(name, known)}}
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

// fieldOf joins the steps to a place.
func fieldOf(steps []string) string {
	var field strings.Builder
	for _, step := range steps {
		switch _, err := strconv.Atoi(step); {
		case err == nil:
			field.WriteString("[" + step + "]")
		case field.Len() > 0:
			field.WriteString("." + step)
		default:
			field.WriteString(step)
		}
	}
	return field.String()
}
