package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
		case key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0:
			d.fail(PositionOf(key), path, "{{ }} is for templates, which nothing fills in here")
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
