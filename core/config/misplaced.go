package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
)

// object is a mapping that is decoded into a struct.
type object struct {
	path string
	of   reflect.Type
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
