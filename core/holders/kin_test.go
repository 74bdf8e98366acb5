package holders

import (
	"maps"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the kin of held devices survive a restart, change with the devices,
// stay while they are away, and end with the holds.
func TestKinAreKept(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	take(t, b, gpu, []Unit{{ID: "a", Device: key("a")}, {ID: "b", Device: key("b")}, {ID: "c", Device: key("c")}, {ID: "p", Device: key("p")}})
	group := func(name string) Kin { return Kin{ResetGroup: name} }
	part := Kin{Parents: []string{"instance", "card"}}
	now := map[string]Kin{"a": group("card-1"), "b": group("card-1"), "c": {}, "d": group("card-2"), "p": part}
	kin := func(k inventory.Key) (Kin, bool) {
		of, listed := now[k.ID]
		return of, listed
	}
	want := func(b *Book, want map[inventory.Key]Kin) {
		t.Helper()
		if got := b.Kin(); !maps.EqualFunc(got, want, Kin.equal) {
			t.Errorf("the kin are %v, want %v", got, want)
		}
	}
	b.Related(kin)
	want(b, map[inventory.Key]Kin{key("a"): group("card-1"), key("b"): group("card-1"), key("p"): part})
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	b = open(t, k, opts)
	delete(now, "a") // away
	delete(now, "p")
	now["b"] = group("card-3")
	b.Related(kin)
	want(b, map[inventory.Key]Kin{key("a"): group("card-1"), key("b"): group("card-3"), key("p"): part})
	b.Return(gpu, []Unit{{ID: "a", Device: key("a")}})
	want(b, map[inventory.Key]Kin{key("b"): group("card-3"), key("p"): part})
}
