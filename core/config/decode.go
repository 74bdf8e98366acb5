package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/suggestion"
)

// Bounds on a document with its aliases expanded, so that a small file cannot use much
// memory. They are far above what a node needs.
const (
	maxNodes = 200_000
	maxBytes = 4 << 20
	maxDepth = 64
)

// decoder copies a YAML document into the types of this package. It collects all errors
// instead of stopping at the first.
type decoder struct {
	file string
	// opening is what the file must start with.
	opening string
	errs    Errors
	// positions has that of each field that the file sets; null does not set a field.
	positions Positions
	// failed are the paths with a reported error. Validation reports no further error at or
	// below them.
	failed map[string]bool
	// broken are the paths with an error somewhere below them.
	broken map[string]bool
	// rows are those of the document, if it has spaces that are none for YAML.
	rows []string
	// within are the objects that are being decoded, the innermost last.
	within []object
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, opening: "apiVersion: " + APIVersion + " and kind: " + Kind, positions: Positions{}, failed: map[string]bool{}, broken: map[string]bool{}}
}

// fail records an error at a position and marks the path.
func (d *decoder) fail(pos Position, path, format string, args ...any) {
	d.failed[path] = true
	for p := path; p != "" && !d.broken[p]; p = parentPath(p) {
		d.broken[p] = true
	}
	message := fmt.Sprintf(format, args...)
	if pos.Line > 0 && pos.Line <= len(d.rows) {
		message = cmp.Or(otherSpaceIn(d.rows[pos.Line-1]), message)
	}
	d.errs = append(d.errs, Error{File: d.file, Position: pos, Field: path, Message: message})
}

// value decodes a node that is not null into v, which must be addressable.
func (d *decoder) value(n *yaml.Node, pos Position, v reflect.Value, path string) {
	n = resolve(n)
	switch u := v.Addr().Interface().(type) {
	case *Settings:
		*u = d.settings(n, pos, path)
		return
	case Union:
		d.value(n, pos, reflect.ValueOf(u.Part(n.Kind)).Elem(), path)
		return
	case encoding.TextUnmarshaler:
		if n.Kind != yaml.ScalarNode {
			d.wrongType(n, pos, path, "a string")
		} else if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			d.fail(pos, path, "%s", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, pos, v.Elem(), path)
	case reflect.Struct:
		d.object(n, pos, v, path)
	case reflect.Slice:
		d.list(n, pos, v, path)
	case reflect.Map:
		d.table(n, pos, v, path)
	case reflect.String:
		isEnumeration := v.Type() != reflect.TypeFor[string]() // whose check names what it may be
		if isString(n) || isEnumeration && slices.Contains([]string{boolTag, intTag, floatTag}, n.ShortTag()) {
			v.SetString(n.Value)
		} else {
			d.wrongType(n, pos, path, "a string")
		}
	case reflect.Int:
		d.integer(n, pos, v, path)
	case reflect.Bool:
		if n.Kind == yaml.ScalarNode && n.ShortTag() == boolTag {
			v.SetBool(strings.EqualFold(n.Value, "true"))
		} else {
			d.wrongType(n, pos, path, "true or false")
		}
	default:
		d.fail(pos, path, "the type %s cannot be configured", v.Type())
	}
}

// object decodes a mapping into a struct: known fields only, each once.
func (d *decoder) object(n *yaml.Node, pos Position, v reflect.Value, path string) {
	fields, names := yamlFields(v.Type())
	if n.Kind != yaml.MappingNode {
		d.notObject(n, pos, path, v.Type(), names)
		return
	}
	d.within = append(d.within, object{path, v.Type()})
	defer func() { d.within = d.within[:len(d.within)-1] }()
	d.eachPair(n, path, func(key, item *yaml.Node) {
		at := FieldPath(path, key.Value)
		i, known := fields[key.Value]
		if !known {
			d.unknownField(key, path, names)
			return
		}
		if isNull(item) {
			return
		}
		d.positions[at] = PositionOf(key)
		d.value(item, PositionOf(key), v.Field(i), at)
	})
}

// removed says what replaces the fields of earlier versions, by the end of their path.
var removed = map[string]string{
	"allow.presets": "write declared: accept (the default for accelmux's own backends), or declared: refuse",
}

// unknownField reports a field that does not exist.
func (d *decoder) unknownField(key *yaml.Node, path string, names []string) {
	at := FieldPath(path, key.Value)
	for field, instead := range removed {
		if strings.HasSuffix(at, "."+field) {
			d.fail(PositionOf(key), at, "is gone: %s", instead)
			return
		}
	}
	if strings.HasPrefix(key.Value, "-") {
		d.fail(PositionOf(key), path, "a space is missing after the - of %s", show(key.Value))
		return
	}
	meant := suggestion.Closest(key.Value, names)
	message, hint := "", ""
	switch {
	case meant != "": // which is probably missing because of this error: do not report it
		d.failed[FieldPath(path, meant)] = true
	case slices.Contains(names, "matchLabels"):
		hint = "; labels of nodes belong below matchLabels"
	default:
		var all []map[string][]string
		if key.Value != "kind" && key.Value != "apiVersion" { // which many objects have
			all = d.places()
		}
		i := slices.IndexFunc(all, func(places map[string][]string) bool { return suggestion.Misplaced(key.Value, places) != "" })
		if i >= 0 {
			message = suggestion.Misplaced(key.Value, all[i])
		}
		if i <= 0 && slices.Contains(names, "settings") && !strings.Contains(message, "; write ") {
			hint = "; what only this backend knows belongs below settings"
		}
	}
	d.fail(PositionOf(key), at, "%s%s", cmp.Or(message, suggestion.UnknownField(key.Value, names)), hint)
}

// list decodes a sequence into a slice.
func (d *decoder) list(n *yaml.Node, pos Position, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.notList(n, pos, path, v.Type().Elem())
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := itemPath(path, i)
		d.positions[at] = PositionOf(item)
		d.value(item, PositionOf(item), v.Index(i), at)
	}
}

// table decodes a mapping into a map with strings as keys.
func (d *decoder) table(n *yaml.Node, pos Position, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		what := "strings"
		if v.Type().Elem().Kind() != reflect.String {
			what = "mappings"
		}
		d.wrongType(n, pos, path, "a mapping of names to "+what)
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	d.eachPair(n, path, func(key, item *yaml.Node) {
		at := FieldPath(path, key.Value)
		d.positions[at] = PositionOf(key)
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(item, PositionOf(key), elem, at)
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
}

// eachPair visits the pairs of a mapping whose keys are strings, each key once,
// and reports the others.
func (d *decoder) eachPair(n *yaml.Node, path string, visit func(key, item *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		at := FieldPath(path, key.Value)
		first, dup := seen[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(PositionOf(key), path, "a key must be a string, this one is %s", describe(key))
		case key.ShortTag() == mergeTag:
			d.fail(PositionOf(key), at, "merge keys are not supported; write the fields out")
		case !isString(key):
			d.fail(PositionOf(key), path, "a key must be a string, this one is %s; put it in quotes", describe(key))
		case dup:
			d.fail(PositionOf(key), at, "set twice, first on line %d", first)
		default:
			seen[key.Value] = key.Line
			visit(key, n.Content[i+1])
		}
	}
}

// integer decodes a whole number in decimal.
func (d *decoder) integer(n *yaml.Node, pos Position, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != intTag {
		d.wrongType(n, pos, path, "a whole number")
		return
	}
	i, err := strconv.ParseInt(n.Value, 10, 0)
	switch {
	case errors.Is(err, strconv.ErrRange):
		d.fail(pos, path, "the number is too large: %s", show(n.Value))
		return
	case err != nil:
		d.fail(pos, path, "must be a whole number in plain decimal digits, is %s", show(n.Value))
		return
	}
	v.SetInt(i)
}

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
		case slices.Contains(mainFields, names[0]) && isString(n):
			hint = fmt.Sprintf("; write {%s: %s}", names[0], n.Value)
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
	hint := rewrite(n, "a list")
	switch kind := of.Kind(); {
	case n.Kind != yaml.ScalarNode || isNull(n):
	case kind == reflect.Struct:
		hint = `; each entry begins with "- "`
		if _, names := yamlFields(of); slices.Contains(mainFields, names[0]) && isString(n) {
			hint = fmt.Sprintf("; write [{%s: %s}]", names[0], n.Value)
		}
	case kind == reflect.String && n.ShortTag() == boolTag:
		hint = ""
	case kind == reflect.String && !isString(n):
		hint = fmt.Sprintf("; write [%q]", n.Value)
	case kind == reflect.Int && n.ShortTag() != intTag:
		hint = ": it has whole numbers, as in [44]"
	}
	d.fail(pos, path, "must be a list, is %s%s", describe(n), hint)
}

// mainFields are those that a text may have been meant for, where they are a mapping's first.
var mainFields = []string{"name", "mode", "declared", "policy", "value", "sample"}

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

// yamlFields returns the indexes of a struct's fields by YAML name, and the names in the order
// of the struct.
func yamlFields(t reflect.Type) (fields map[string]int, names []string) {
	fields = make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		fields[name] = i
		names = append(names, name)
	}
	return fields, names
}

// The short tags of YAML values.
const (
	nullTag  = "!!null"
	boolTag  = "!!bool"
	strTag   = "!!str"
	intTag   = "!!int"
	floatTag = "!!float"
	timeTag  = "!!timestamp"
	mergeTag = "!!merge"
)

// resolve follows aliases. They have no cycles: checkBounds refuses these.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == nullTag
}

func isString(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == strTag
}

// describe describes a node, for "must be a string, is ...".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tag := n.ShortTag(); tag {
	case nullTag:
		return "empty"
	case boolTag:
		return "the boolean " + show(n.Value)
	case intTag, floatTag:
		return "the number " + show(n.Value)
	case strTag:
		return "the string " + show(n.Value)
	case timeTag:
		return "the date " + show(n.Value)
	default:
		return "of the type " + show(tag)
	}
}

// checkBounds walks a document with every alias expanded, and returns an error and the node if
// it is too big, too deep or cyclic.
func checkBounds(root *yaml.Node) (*yaml.Node, error) {
	var nodes, bytes int
	var walk func(n *yaml.Node, depth int) (*yaml.Node, error)
	walk = func(n *yaml.Node, depth int) (*yaml.Node, error) {
		nodes++
		bytes += len(n.Value)
		switch {
		case depth > maxDepth:
			return n, fmt.Errorf("nested more than %d levels deep", maxDepth)
		case nodes > maxNodes:
			return n, fmt.Errorf("more than %d values once aliases are expanded", maxNodes)
		case bytes > maxBytes:
			return n, fmt.Errorf("more than %d bytes once aliases are expanded", maxBytes)
		}
		if n.Kind == yaml.AliasNode {
			if n.Alias == nil {
				return n, errors.New("alias without an anchor")
			}
			// Report the alias, not its anchor: the alias is what to change.
			if _, err := walk(n.Alias, depth+1); err != nil {
				return n, err
			}
			return nil, nil
		}
		for _, child := range n.Content {
			if at, err := walk(child, depth+1); err != nil {
				return at, err
			}
		}
		return nil, nil
	}
	return walk(root, 0)
}
