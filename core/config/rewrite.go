package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/suggestion"
)

// wrongType reports a node of another type than want, with how to write what was meant.
func (d *decoder) wrongType(n *yaml.Node, pos Position, path, want string) {
	hint := rewrite(n, want)
	if strings.HasSuffix(parentPath(path), ".ignorePCI") {
		hint = pciOf(n.Value)
	}
	d.fail(pos, path, "must be %s, is %s%s", want, describe(n), hint)
}

// notObject reports a node where a mapping with these fields must be: a text where a name alone may be meant, also one without
// the space after the colon.
func (d *decoder) notObject(n *yaml.Node, pos Position, path string, of reflect.Type, names []string) {
	hint := ""
	if n.Kind == yaml.ScalarNode && len(names) > 0 {
		key, value, found := strings.Cut(n.Value, ":")
		switch {
		case found && slices.Contains(names, key):
			hint = fmt.Sprintf("; a space is missing after the colon: write %s: %s", key, value)
		case fieldFor(n.Value, of) != "":
			hint = fmt.Sprintf("; write {%s: %s}", fieldFor(n.Value, of), n.Value)
		case isString(n):
			if value := mainValue(names[0], n.Value); value != "" {
				hint = fmt.Sprintf("; write {%s: %s}", names[0], value)
			}
		}
	}
	subject := ""
	if path == "" {
		subject = "the file "
	}
	d.fail(pos, path, "%smust be a mapping with the fields %s, is %s%s", subject, strings.Join(names, ", "), describe(n), hint)
}

// fieldFor returns the first field of a struct that reads a text of its own form, such as a duration; "" if none accepts the text.
func fieldFor(text string, of reflect.Type) string {
	for i := range of.NumField() {
		field, ok := reflect.New(of.Field(i).Type).Interface().(encoding.TextUnmarshaler)
		if ok && text != "" && field.UnmarshalText([]byte(text)) == nil {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
			return name
		}
	}
	return ""
}

// notList reports a node where a list must be, with how to write a list of one: in one of mappings, a text may have been meant
// for the main field.
func (d *decoder) notList(n *yaml.Node, pos Position, path string, of reflect.Type) {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		dash, size := utf8.DecodeRuneInString(n.Content[0].Value)
		if name := strings.TrimSpace(n.Content[0].Value[size:]); dash >= utf8.RuneSelf && unicode.Is(unicode.Pd, dash) {
			d.fail(PositionOf(n.Content[0]), path, "the dash before %s (%U) is none for YAML: write the - of the keyboard", name, dash)
			return
		}
	}
	hint := rewrite(n, "a list")
	switch kind := of.Kind(); {
	case n.Kind != yaml.ScalarNode || isNull(n):
	case kind == reflect.Struct:
		hint = `; each entry begins with "- "`
		_, names := yamlFields(of)
		if value := mainValue(names[0], n.Value); value != "" && isString(n) {
			hint = fmt.Sprintf("; write [{%s: %s}]", names[0], value)
		}
	case kind == reflect.String && n.ShortTag() == boolTag:
		hint = ""
	case kind == reflect.String && (!isString(n) || !isPlain(n.Value)):
		hint = fmt.Sprintf("; write [%q]", n.Value)
	case kind == reflect.Int && n.ShortTag() != intTag:
		hint = ": it has whole numbers, as in [44]"
	}
	d.fail(pos, path, "must be a list, is %s%s", describe(n), hint)
}

// isPlain reports whether YAML has a text for a string without quotes.
func isPlain(text string) bool { return isString(&yaml.Node{Kind: yaml.ScalarNode, Value: text}) }

// mainFields are those that a text may have been meant for, where they are a mapping's first, with what they may be; nil for
// any text.
var mainFields = map[string][]string{
	"name":     nil,
	"value":    nil,
	"mode":     textsOf(sandboxModes),
	"declared": textsOf(acceptances),
	"policy":   textsOf(policies),
	"sample":   textsOf(sampleModes),
}

// mainValue returns what a text means as the value of a main field; "" if the field is none, or refuses it.
func mainValue(field, text string) string {
	values, isMain := mainFields[field]
	meant, isMeant := strings.CutPrefix(suggestion.Meant(text, values), "; write ")
	switch {
	case !isMain:
		return ""
	case values == nil || slices.Contains(values, text):
		return text
	case isMeant:
		return meant
	}
	return suggestion.Closest(text, values)
}

// rewrite returns how to write a node as what is wanted; "" if that is not known.
func rewrite(n *yaml.Node, want string) string {
	isFlow := n.Style&yaml.FlowStyle != 0
	switch isScalar := n.Kind == yaml.ScalarNode && !isNull(n); {
	case n.Kind == yaml.MappingNode && isFlow && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		return "; {{ }} is for templates, which nothing fills in here"
	case want == "a string" && isScalar:
		return "; put it in quotes"
	case want == "a string" && n.Kind == yaml.MappingNode && isFlow && len(n.Content) == 2:
		return "; a text that begins with { must be in quotes"
	case want == "a whole number" && isString(n) && wholeNumber.MatchString(n.Value):
		return "; take the quotes away"
	case want == "a whole number" && isScalar && wholeFraction.MatchString(n.Value):
		return "; write " + wholeFraction.FindStringSubmatch(n.Value)[1]
	case want == "true or false" && isString(n):
		return booleanOf(n.Value)
	case want == "a list" && isScalar:
		return "; write [" + n.Value + "]"
	case want == "a list" && n.Kind == yaml.MappingNode:
		return `; each entry begins with "- "`
	case want == "a mapping of names to mappings" && isNamed(n):
		return fmt.Sprintf("; write {%s: {%s: %s}}", n.Content[0].Content[1].Value, n.Content[0].Content[2].Value, n.Content[0].Content[3].Value)
	case strings.HasPrefix(want, "a mapping of names") && isNamed(n):
		return fmt.Sprintf("; write {%s: %s}", n.Content[0].Content[1].Value, n.Content[0].Content[3].Value)
	}
	return ""
}

var (
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	wholeFraction = regexp.MustCompile(`^0*([1-9][0-9]{0,9})(?:\.0*)?$`)
)

// isNamed reports whether a list begins with {name: A, value: b}, as containers have their environment.
func isNamed(n *yaml.Node) bool {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content[0].Content) != 4 {
		return false
	}
	first := n.Content[0].Content
	return first[0].Value == "name" && first[2].Value == "value"
}

// booleanOf returns how to write a boolean that is a text, or one of YAML 1.1.
func booleanOf(text string) string {
	switch strings.ToLower(text) {
	case "true", "false":
		return "; take the quotes away"
	case "yes", "on", "y":
		return "; write true"
	case "no", "off", "n":
		return "; write false"
	}
	return ""
}
