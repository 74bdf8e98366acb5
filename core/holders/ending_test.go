package holders

import (
	"testing"
	"time"
)

// Verifies that a pod that kubelet lists no more is ending, and that its release is
// believed when a second list, a while later, does not have it either; one that is back
// meanwhile holds its devices as before.
func TestEnding(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	allocate(t, b, "a")
	k.shows(pod("p", "a"))
	poll(t, b)
	want := func(what string, held, ending bool) {
		t.Helper()
		all := b.AllocationsOf(key("a"))
		if b.Held(key("a")) != held || held && (len(all) != 1 || all[0].Containers[0].Pod != "p" || all[0].Ending != ending) {
			t.Errorf("%s: allocations are %+v; want held %v, ending %v", what, all, held, ending)
		}
	}
	want("listed", true, false)
	look := time.Second // podresources.Timing.Confirm
	for _, back := range []bool{true, false} {
		k.pass(2 * time.Second)
		k.shows()
		poll(t, b)
		want("listed no more", true, true)
		k.pass(look / 2)
		poll(t, b)
		want("listed no more for too short a time", true, true)
		if back {
			k.shows(pod("p", "a"))
			poll(t, b)
			want("listed again", true, false)
			k.pass(look)
		}
	}
	k.pass(look / 2)
	k.up = time.Second
	poll(t, b)
	want("kubelet has just started", true, true)
	k.up = time.Hour
	poll(t, b)
	want("listed no more twice", false, false)
}

// drain takes a signal out of the channel, and reports whether there was one.
func drain(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
