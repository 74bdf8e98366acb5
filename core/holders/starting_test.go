package holders

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies who counts as another user of a device, when a container is about to start.
func TestStarting(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	b.unconfirmed.complete = true
	announced := func(units ...string) []Unit {
		var given []Unit
		for _, u := range units {
			c := unitOf(u)
			c.Prepared = true
			given = append(given, c)
		}
		return given
	}
	start := func(what string, want []inventory.Key, units ...string) (failed func()) {
		t.Helper()
		got, failed := b.Starting(gpu, announced(units...))
		if diff := cmp.Diff(want, sharedOf(got)); diff != "" {
			t.Errorf("%s: shared (-want +got):\n%s", what, diff)
		}
		return failed
	}
	shared := []inventory.Key{key("a")}
	take(t, b, gpu, announced("a::0", "a::1", "b::0"))
	failed := start("before the other one starts", nil, "a::0", "b::0")
	start("beside one that starts", shared, "a::1")()
	failed()
	start("after it failed", nil, "a::1")
	start("beside one that runs", shared, "a::0", "b::0")
	start("once more", shared, "a::1")
	take(t, b, gpu, announced("a::1"))
	start("a new holder of a unit has yet to start", nil, "a::0")
	take(t, b, "example.com/other", []Unit{unitOf("b::1")})
	start("under another name, without a word before its start", []inventory.Key{key("b")}, "b::0")
	start("nobody's", nil, "c")

	again := open(t, k, options(t, k))
	again.Suspect(key("a"), key("c"))
	if got, _ := again.Starting(gpu, announced("a::0", "c")); !slices.Equal(sharedOf(got), shared) {
		t.Errorf("after a restart: %v, want the device with replicas, of which not all is known", got)
	}
}

// sharedOf are the devices that another container uses, too.
func sharedOf(starts []Start) []inventory.Key {
	var keys []inventory.Key
	for _, s := range starts {
		for _, d := range s.Devices {
			if d.Shared {
				keys = append(keys, d.Device)
			}
		}
	}
	return keys
}

// Verifies that what an earlier run allocated counts as started: nobody knows.
func TestStartingAfterARestart(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	take(t, b, gpu, []Unit{{ID: "a::0", Device: key("a"), Prepared: true}, {ID: "a::1", Device: key("a"), Prepared: true}})
	allocate(t, b, "c")
	must(t, b.Close())
	b = open(t, k, opts)
	if got, _ := b.Starting(gpu, []Unit{unitOf("a::0"), unitOf("c")}); len(got) != 2 || got[0].Unprepared || !got[1].Unprepared {
		t.Errorf("starts %+v; want c alone unprepared", got)
	}
	for want, units := range map[bool][]string{true: {"c"}, false: {"c", "a::0"}} {
		if b.Unprepared(gpu, units) != want {
			t.Errorf("%q are unprepared: %v", units, !want)
		}
	}
	if b.Unprepared(gpu, []string{"x"}) {
		t.Error("a unit that is not allocated is unprepared")
	}
	if got, _ := b.Starting(gpu, []Unit{{ID: "a::1", Device: key("a"), Prepared: true}}); len(sharedOf(got)) != 1 {
		t.Errorf("shared: %v", got)
	}
}
