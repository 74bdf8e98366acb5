package usage

import (
	"maps"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the reset groups of held devices survive a restart, change with the
// devices, stay while they are away, and end with the holds.
func TestGroupsAreKept(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	b.Allocated(gpu, []Claim{{Unit: "a", Key: key("a")}, {Unit: "b", Key: key("b")}, {Unit: "c", Key: key("c")}})
	now := map[string]string{"a": "card-1", "b": "card-1", "c": "", "d": "card-2"}
	group := func(k inventory.Key) (string, bool) {
		name, listed := now[k.ID]
		return name, listed
	}
	want := func(b *Book, want map[inventory.Key]string) {
		t.Helper()
		if got := b.Groups(); !maps.Equal(got, want) {
			t.Errorf("the groups are %v, want %v", got, want)
		}
	}
	b.Grouped(group)
	want(b, map[inventory.Key]string{key("a"): "card-1", key("b"): "card-1"})
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	b = open(t, k, opts)
	delete(now, "a") // away
	now["b"] = "card-3"
	b.Grouped(group)
	want(b, map[inventory.Key]string{key("a"): "card-1", key("b"): "card-3"})
	b.Abandoned(gpu, []Claim{{Unit: "a", Key: key("a")}})
	want(b, map[inventory.Key]string{key("b"): "card-3"})
}
