package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDifferences verifies what counts as another state of the same devices, and what
// as other devices.
func TestDifferences(t *testing.T) {
	dev := func(backend, id, parent string) *Device { return &Device{Key: Key{backend, id}, Parent: parent} }
	a, b, c := dev("x", "a", ""), dev("x", "b", "a"), dev("y", "c", "")
	of := func(name string, devices ...*Device) *Backend { return &Backend{Name: name, Devices: devices} }
	x, y := of("x", a, b), of("y", c)
	before := &Snapshot{Backends: []*Backend{x, y}}
	for name, tc := range map[string]struct {
		after []*Backend
		want  []Place
		other bool
	}{
		"the same":         {after: []*Backend{x, y}},
		"said again":       {after: []*Backend{of("x", a, b), y}},
		"another state":    {after: []*Backend{x, of("y", dev("y", "c", ""))}, want: []Place{{1, 0}}},
		"two of them":      {after: []*Backend{of("x", dev("x", "a", ""), dev("x", "b", "a")), y}, want: []Place{{0, 0}, {0, 1}}},
		"another parent":   {after: []*Backend{of("x", a, dev("x", "b", "")), y}, other: true},
		"another ID":       {after: []*Backend{of("x", a, dev("x", "c", "a")), y}, other: true},
		"another order":    {after: []*Backend{of("x", b, a), y}, other: true},
		"one less":         {after: []*Backend{of("x", a), y}, other: true},
		"one more":         {after: []*Backend{x, of("y", c, dev("y", "d", ""))}, other: true},
		"a backend less":   {after: []*Backend{x}, other: true},
		"another backend":  {after: []*Backend{x, of("z", c)}, other: true},
		"backends swapped": {after: []*Backend{y, x}, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Differences(before, &Snapshot{Backends: tc.after})
			if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.other {
				t.Errorf("the same places: %v; differences (-want +got):\n%s", ok, diff)
			}
		})
	}
}
