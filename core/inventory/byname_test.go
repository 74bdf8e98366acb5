package inventory

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Verifies that ByName has what the map has from which it is made.
func TestByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.StringMatching(`[a-d]{0,2}`)
		want := rapid.MapOf(names, rapid.Int64()).Draw(t, "values")
		values := Named(want)
		if !maps.Equal(values.Map(), want) || (values == nil) != (len(want) == 0) || (values.Map() == nil) != (len(want) == 0) {
			t.Fatalf("%v of %v", values, want)
		}
		var order []string
		for name, value := range values.All() {
			if order = append(order, name); value != want[name] {
				t.Fatalf("%s is %d, want %d", name, value, want[name])
			}
			if len(order) == 2 {
				break // which All must allow
			}
		}
		if sorted := sortedKeys(want); !slices.Equal(order, sorted[:min(2, len(sorted))]) {
			t.Fatalf("%v come in the order %v", values, order)
		}
		name := names.Draw(t, "name")
		got, ok := values.Get(name)
		if value, there := want[name]; got != value || ok != there {
			t.Fatalf("%q is %d, %v, want %d, %v", name, got, ok, value, there)
		}
	})
}
