package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

// maxShown bounds a text of the value in a message, in bytes.
const maxShown = 64

func quote(s string) string { return text.Quote(s, maxShown) }

// message returns what is wrong with a value: what a part of the schema, its node, wants, what the value is, and how to write
// what was meant. No words of schemas are in it.
func (e explainer) message(kind jsonschema.ErrorKind, node map[string]any, value any) string {
	switch k := kind.(type) {
	case *schemakind.Type, *schemakind.Enum, *schemakind.Const, *schemakind.Pattern, *schemakind.Format,
		*schemakind.Minimum, *schemakind.Maximum, *schemakind.ExclusiveMinimum, *schemakind.ExclusiveMaximum, *schemakind.MultipleOf:
		wanted, hint := e.wanted(node), e.hint(node, value)
		if len(wanted) > maxWanted && hint != "" {
			return shown(value) + " is not possible" + hint
		}
		return "must be " + wanted + ", is " + shown(value) + hint
	case *schemakind.Required:
		return e.missing(node, k.Missing)
	case *schemakind.DependentRequired:
		return "with " + k.Prop + ", " + e.missing(node, k.Missing)
	case *schemakind.Dependency:
		return "with " + k.Prop + ", " + e.missing(node, k.Missing)
	case *schemakind.MinLength:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *schemakind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *schemakind.MinItems:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d entries, has %d", k.Want, k.Got)
	case *schemakind.MaxItems:
		return fmt.Sprintf("must have at most %d entries, has %d", k.Want, k.Got)
	case *schemakind.AdditionalItems:
		return fmt.Sprintf("has %d entries too many", k.Count)
	case *schemakind.MinProperties:
		return fmt.Sprintf("must have at least %d fields, has %d", k.Want, k.Got)
	case *schemakind.MaxProperties:
		return fmt.Sprintf("must have at most %d fields, has %d", k.Want, k.Got)
	case *schemakind.UniqueItems:
		list, _ := value.([]any)
		if i := k.Duplicates[1]; i < len(list) {
			return "has " + shown(list[i]) + " twice"
		}
	case *schemakind.FalseSchema:
		return "is not possible here"
	}
	return "is not possible here" + about(node)
}

// about returns the description of a part of a schema, for messages that have nothing better.
func about(node map[string]any) string {
	if description, _ := node["description"].(string); description != "" {
		return ": " + text.Printable(description, 4*maxShown)
	}
	return ""
}

// maxWanted bounds what a message names beside the value that was meant, in bytes.
const maxWanted = 4 * maxShown

// needs begins the messages about fields that are missing.
const needs = "needs "

func (e explainer) missing(node map[string]any, names []string) string {
	known := properties(e.schema, node, maxParts)
	var each []string
	for _, name := range names {
		if wanted := e.wanted(e.followed(known[name])); wanted != anything {
			name += ", " + wanted
		}
		each = append(each, name)
	}
	if len(each) == 1 {
		return needs + "the field " + each[0]
	}
	return needs + "the fields " + strings.Join(each, "; ")
}

// anything is what a part of a schema wants that says nothing.
const anything = "another value"

const (
	// maxNested bounds how deep alternatives of alternatives are in a message, maxEither how many of each, and maxNames the
	// names in it: a schema is not trusted, and parts that were not evaluated are shown.
	maxNested = 2
	maxEither = 8
	maxNames  = 40
)

// joined returns the first of many names.
func joined(names []string) string {
	if len(names) > maxNames {
		return strings.Join(names[:maxNames], ", ") + " ..."
	}
	return strings.Join(names, ", ")
}

// wanted returns what a part of the schema accepts, such as "a whole number from 2 to 100".
func (e explainer) wanted(node map[string]any) string { return e.wantedWithin(node, maxNested) }

func (e explainer) wantedWithin(node map[string]any, depth int) string {
	if values, ok := node["enum"].([]any); ok {
		var names []string
		for _, value := range values {
			if value != "" { // which is the default, not a name
				names = append(names, plain(value))
			}
		}
		if len(names) == 1 {
			return names[0]
		}
		return "one of " + joined(names)
	}
	if value, ok := node["const"]; ok {
		return plain(value)
	}
	if len(alternativesOf(node)) > 0 && depth > 0 {
		if wanted := e.either(node, depth-1); wanted != anything {
			return wanted
		}
	}
	var each []string
	for _, name := range typesOf(node) {
		each = append(each, e.wantedType(node, name))
	}
	if len(each) == 0 {
		if pattern, ok := node["pattern"].(string); ok {
			return form(pattern)
		}
		return anything
	}
	return strings.Join(each, " or ")
}

func (e explainer) wantedType(node map[string]any, name string) string {
	switch name {
	case "integer":
		return "a whole number" + bounds(node)
	case "number":
		return "a number" + bounds(node)
	case "boolean":
		return "true or false"
	case "null":
		return "empty"
	case "array":
		return "a list"
	case "string":
		if pattern, ok := node["pattern"].(string); ok {
			return form(pattern)
		}
		return "a text"
	}
	names := slices.Sorted(maps.Keys(properties(e.schema, node, maxParts)))
	switch len(names) {
	case 0:
		return "a mapping"
	case 1:
		return "a mapping with the field " + names[0]
	}
	return "a mapping with the fields " + joined(names)
}

func bounds(node map[string]any) string {
	least, most := node["minimum"], node["maximum"]
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf(" from %v to %v", least, most)
	case least != nil:
		return fmt.Sprintf(" of at least %v", least)
	case most != nil:
		return fmt.Sprintf(" of at most %v", most)
	case node["exclusiveMinimum"] != nil:
		return fmt.Sprintf(" above %v", node["exclusiveMinimum"])
	case node["exclusiveMaximum"] != nil:
		return fmt.Sprintf(" below %v", node["exclusiveMaximum"])
	case node["multipleOf"] != nil:
		return fmt.Sprintf(", a multiple of %v", node["multipleOf"])
	}
	return ""
}

// aDuration is what the patterns of durations want.
const aDuration = "a duration such as 30s or 1m30s"

// form returns what a pattern of JSON schema wants.
func form(pattern string) string {
	switch {
	case strings.Contains(pattern, "(/([^/.]|"):
		return "an absolute path without //, . and .., and without / at its end"
	case pattern == "^/" || pattern == "^(/.*)?$":
		return "an absolute path"
	case strings.Contains(pattern, "(ns|us|"):
		return aDuration
	case strings.Contains(pattern, "([KMGTP]i?)?"):
		return "an amount such as 512Mi or 16Gi"
	case strings.HasPrefix(pattern, "^[a-z]([a-z0-9-]{0,"):
		return "lower-case letters, digits and dashes, with a letter first, such as acme-npu"
	case strings.HasPrefix(pattern, "^[A-Za-z0-9_.-]{1,"):
		return "letters, digits, _, . and -, such as link-down or vfio-pci"
	case strings.HasPrefix(pattern, "^[A-Z][A-Z0-9_]{0,"):
		return "a property of a uevent, such as WEDGED or ERROR_EVENT=FAILED_RECOVERY"
	case strings.HasPrefix(pattern, "^GPU-"):
		return "the UUID of a GPU, such as GPU-9d2c4a1e-0f7b-4c55-8a0e-2f1d3b6c7e80"
	case strings.HasPrefix(pattern, "^[rwm]"):
		return "letters of r, w and m, such as rw"
	}
	return "a text of the form " + pattern
}

// alternativesOf returns the alternatives of a part of a schema.
func alternativesOf(node map[string]any) []any {
	all, ok := node["anyOf"].([]any)
	if !ok {
		all, _ = node["oneOf"].([]any)
	}
	return all
}

// either returns what alternatives accept.
func (e explainer) either(node map[string]any, depth int) string {
	var all []string
	others := alternativesOf(node)
	for _, other := range others[:min(len(others), maxEither)] {
		wanted := e.wantedWithin(e.followed(other), depth)
		if !slices.Contains(all, wanted) {
			all = append(all, strings.TrimPrefix(wanted, "one of "))
		}
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// alternatives returns what is wrong with a value that none of several alternatives accepts, or, if several, more than one.
func (e explainer) alternatives(node map[string]any, value any, several bool) string {
	_, isObject := value.(map[string]any)
	var fields []string
	for _, other := range alternativesOf(node) {
		if required := textsOf(e.followed(other)["required"]); isObject && len(required) > 0 {
			fields = append(fields, strings.Join(required, " and "))
		}
	}
	switch {
	case len(fields) > 1 && several:
		return "must have only one of: " + strings.Join(fields, "; ")
	case len(fields) > 1:
		return needs + strings.Join(fields, ", or ")
	case several:
		return "can mean several things" + about(node)
	}
	hint := e.hint(node, value)
	for _, other := range alternativesOf(node) {
		if hint == "" {
			hint = e.hint(e.followed(other), value)
		}
	}
	return "must be " + e.wantedWithin(node, maxNested+1) + ", is " + shown(value) + hint
}

// followed returns a part of a schema, or what it refers to.
func (e explainer) followed(node any) map[string]any {
	object, _ := node.(map[string]any)
	for range maxParts {
		reference, ok := object["$ref"].(string)
		if !ok || !strings.HasPrefix(reference, "#") {
			break
		}
		object, _ = part(e.schema, reference[1:]).(map[string]any)
	}
	return object
}

// hint returns how to write a value that was meant; "" if that is not known.
func (e explainer) hint(node map[string]any, value any) string {
	types := typesOf(node)
	wants := func(name string) bool { return slices.Contains(types, name) }
	words, isText := value.(string)
	_, isMapping := value.(map[string]any)
	list, isList := value.([]any)
	switch {
	case node["enum"] != nil:
		var names []string
		values, _ := node["enum"].([]any)
		for _, value := range values {
			names = append(names, plain(value))
		}
		return suggestion.Meant(plain(value), names)
	case wants("object") && value == nil:
		return "; leave the field out, or write {}"
	case wants("object"):
		return e.member(node, value)
	case wants("array") && value != nil && !isMapping:
		if e.accepts(node, []any{value}) {
			return "; write [" + plain(value) + "]"
		}
	case wants("array") && isMapping:
		return `; each entry begins with "- "`
	case isList && wants("string"):
		if len(list) == 1 && e.accepts(node, list[0]) {
			return "; write " + plain(list[0])
		}
	case !isText && wants("string") && node["pattern"] == nil && value != nil:
		return "; put it in quotes"
	case !isText && wants("string") && form(fmt.Sprint(node["pattern"])) == aDuration && value != nil:
		return "; write " + plain(value) + "s for seconds"
	case isText && (wants("integer") || wants("number") || wants("boolean")):
		return unquoted(words, wants("boolean"))
	}
	return ""
}

// unquoted returns how to write a number, an amount or a boolean that is a text.
func unquoted(words string, boolean bool) string {
	switch lower := strings.ToLower(words); {
	case boolean && slices.Contains([]string{"yes", "on", "y"}, lower):
		return "; write true"
	case boolean && slices.Contains([]string{"no", "off", "n"}, lower):
		return "; write false"
	case boolean && (lower == "true" || lower == "false"), json.Valid([]byte(words)) && !boolean:
		return "; take the quotes away"
	case !boolean:
		if amount, err := resource.ParseQuantity(strings.TrimSuffix(words, "B")); err == nil && amount.Sign() > 0 {
			return fmt.Sprintf("; %s is %d", words, amount.Value())
		}
	}
	return ""
}

// member returns the mapping whose one field has the value, if a field is for it.
func (e explainer) member(node map[string]any, value any) string {
	if _, isMapping := value.(map[string]any); isMapping {
		return ""
	}
	known := properties(e.schema, node, maxParts)
	for _, isExact := range []bool{true, false} { // an enumeration that has the value, before a field that takes any text
		for _, name := range append(textsOf(node["required"]), slices.Sorted(maps.Keys(known))...) {
			field := e.followed(known[name])
			if (field["enum"] != nil) == isExact && (isExact || len(known) == 1 || slices.Contains(textsOf(node["required"]), name)) && e.accepts(node, map[string]any{name: value}) {
				return fmt.Sprintf("; write {%s: %s}", name, plain(value))
			}
		}
	}
	return ""
}

// accepts reports whether a part of the schema accepts a value: advice is tried before it is given.
func (e explainer) accepts(node map[string]any, value any) bool {
	own := maps.Clone(node)
	if root, ok := e.schema.(map[string]any); ok {
		for _, shared := range []string{"$schema", "$defs", "definitions"} { // what references lead to
			if of, ok := root[shared]; ok {
				own[shared] = of
			}
		}
	}
	of, err := json.Marshal(own)
	if err != nil {
		return false
	}
	tried, err := json.Marshal(value)
	return err == nil && evaluate(string(of), "", tried) == nil
}

// plain returns a value as YAML has it, as far as it needs no quotes.
func plain(value any) string {
	if rat, ok := value.(*big.Rat); ok {
		return rat.RatString()
	}
	if s, ok := value.(string); ok && (s == "" || strings.ContainsAny(s, "\n\"'{}[],#&*!|>%@`") || s != text.Printable(s, maxShown)) {
		return quote(s)
	}
	return fmt.Sprint(value)
}

func typesOf(node map[string]any) []string {
	if name, ok := node["type"].(string); ok {
		return []string{name}
	}
	return textsOf(node["type"])
}

func textsOf(value any) (all []string) {
	list, _ := value.([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
