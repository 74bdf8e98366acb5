package inventory

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// ByName has values by name, sorted by it, each name once. It takes less memory than a map,
// which has some 300 bytes without a value, and a backend may have 4,096 devices with several
// of them. [Named] creates it; the zero value is empty. It is read-only once it is part of a
// device.
type ByName[V any] []NamedValue[V]

// NamedValue is one of the values of ByName.
type NamedValue[V any] struct {
	Name  string
	Value V
}

// Named returns the values of a map; nil if there are none.
func Named[V any](values map[string]V) ByName[V] {
	if len(values) == 0 {
		return nil
	}
	out := make(ByName[V], 0, len(values))
	for _, name := range sortedKeys(values) {
		out = append(out, NamedValue[V]{name, values[name]})
	}
	return out
}

// Get returns the value of that name. ok is false, and the value zero, if there is none.
func (b ByName[V]) Get(name string) (value V, ok bool) {
	i, ok := slices.BinarySearchFunc(b, name, func(v NamedValue[V], name string) int { return cmp.Compare(v.Name, name) })
	if !ok {
		return value, false
	}
	return b[i].Value, true
}

// All returns the names and their values, in the order of the names.
func (b ByName[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, v := range b {
			if !yield(v.Name, v.Value) {
				return
			}
		}
	}
}

// Map returns a new map of the values; nil if there are none.
func (b ByName[V]) Map() map[string]V {
	if len(b) == 0 {
		return nil
	}
	return maps.Collect(b.All())
}
