package config

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/suggestion"
)

// object is a mapping that is decoded into a struct.
type object struct {
	path string
	of   reflect.Type
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
	case path == "" && key.Value == "metadata" && slices.Contains(names, "profiles"):
		message = `unknown field "metadata"; a node configuration has none: leave it out`
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

// places returns the fields of other objects that one of the innermost may belong to, by the paths of these objects: first of
// those in the innermost itself, then of each around it, and of what that has next to it.
func (d *decoder) places() (all []map[string][]string) {
	for i, o := range slices.Backward(d.within) {
		below := map[string][]string{}
		if i == len(d.within)-1 {
			addPlaces("", o.of, maxPlaces, below)
		} else {
			if o.path != "" {
				_, own := yamlFields(o.of)
				all = append(all, map[string][]string{o.path: own})
			}
			addPlaces(o.path, o.of, 1, below)
		}
		all = append(all, below)
	}
	return all
}

// maxPlaces bounds how deep an object may be, as types may have themselves.
const maxPlaces = 4

// addPlaces adds the objects with fields that a type has, down to a depth, by their paths.
func addPlaces(path string, of reflect.Type, depth int, all map[string][]string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		at, t := FieldPath(path, name), field.Type
		switch t.Kind() {
		case reflect.Slice:
			at, t = at+"[]", t.Elem()
		case reflect.Map:
			at, t = at+".NAME", t.Elem()
		case reflect.Pointer:
			t = t.Elem()
		default:
		}
		pointer := reflect.PointerTo(t)
		if t.Kind() != reflect.Struct || pointer.Implements(reflect.TypeFor[Union]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			continue
		}
		_, all[at] = yamlFields(t)
		if depth > 1 {
			addPlaces(at, t, depth-1, all)
		}
	}
}
