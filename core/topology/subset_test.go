package topology

import (
	"fmt"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the load of all sets is what is stated: the squares of how many units of
// a device are in use, those that were before among them. Of a, with three units left,
// and b, with two left and two in use, three and one make 9+9, two and two 4+16.
func TestEnumerationCountsLoad(t *testing.T) {
	var units []Unit
	for i := range 7 {
		d := &inventory.Device{Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("a%d", i)}, Parent: "a"}
		if i >= 3 {
			d.ID, d.Parent = fmt.Sprintf("b%d", i-3), "b"
		}
		units = append(units, Unit{ID: d.ID, Device: d, Healthy: true})
	}
	topology := Prepare(units, Options{})
	topology.subsets, topology.tree = topology.newSubsets(), nil
	got := topology.Choose(Request{Available: []string{"a0", "a1", "a2", "b0", "b1"}, Size: 4})
	if want := []string{"a0", "a1", "b0", "b1"}; got.Method != Enumeration || !slices.Equal(got.IDs, want) || got.Score.Load != 20 {
		t.Errorf("%+v, want %v", got, want)
	}
}
