package holders

import (
	"maps"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the reset scopes of held devices survive a restart, change with the devices,
// stay while they are away, and end with the holds.
func TestResetScopesAreKept(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	take(t, b, gpu, []Unit{{ID: "a", Device: key("a")}, {ID: "b", Device: key("b")}, {ID: "c", Device: key("c")}, {ID: "p", Device: key("p")}})
	group := func(name string) ResetScope { return ResetScope{Group: name} }
	part := ResetScope{Parents: []string{"instance", "card"}}
	now := map[string]ResetScope{"a": group("card-1"), "b": group("card-1"), "c": {}, "d": group("card-2"), "p": part}
	kin := func(k inventory.Key) (ResetScope, bool) {
		of, listed := now[k.ID]
		return of, listed
	}
	want := func(b *Book, want map[inventory.Key]ResetScope) {
		t.Helper()
		if got := b.ResetScopes(); !maps.EqualFunc(got, want, ResetScope.equal) {
			t.Errorf("the scopes are %v, want %v", got, want)
		}
	}
	b.SetResetScopes(kin)
	want(b, map[inventory.Key]ResetScope{key("a"): group("card-1"), key("b"): group("card-1"), key("p"): part})
	must(t, b.save())
	b = open(t, k, opts)
	delete(now, "a") // away
	delete(now, "p")
	now["b"] = group("card-3")
	b.SetResetScopes(kin)
	want(b, map[inventory.Key]ResetScope{key("a"): group("card-1"), key("b"): group("card-3"), key("p"): part})
	b.Return(gpu, []Unit{{ID: "a", Device: key("a")}})
	want(b, map[inventory.Key]ResetScope{key("b"): group("card-3"), key("p"): part})
}
