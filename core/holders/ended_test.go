package holders

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// starting returns the holders of a container with these units that is about to start.
func starting(t *testing.T, b *Book, units ...string) []string {
	t.Helper()
	var given []Unit
	for _, u := range units {
		given = append(given, unitOf(u))
	}
	starts, _ := b.Starting(gpu, given)
	var holders []string
	for _, s := range starts {
		holders = append(holders, s.Holder.ID)
	}
	return holders
}

func sole(t *testing.T, holders []string) string {
	t.Helper()
	if len(holders) != 1 || holders[0] == "" {
		t.Fatalf("holders %q, want one", holders)
	}
	return holders[0]
}

// Verifies that what one Allocate gave is one holder, the same at every start of its
// container and over a restart, and another than that of another replica of its devices;
// and that each holder ends on its own.
func TestHolders(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	allocate(t, b, "a::0", "a::1", "b")
	allocate(t, b, "a::2")
	first, second := sole(t, starting(t, b, "a::0", "a::1", "b")), sole(t, starting(t, b, "a::2"))
	if first == second {
		t.Error("two containers are one holder")
	}
	for range 2 {
		if got := sole(t, starting(t, b, "b", "a::1", "a::0")); got != first {
			t.Errorf("a restart of the container has the holder %s, want %s", got, first)
		}
		must(t, b.Close())
		b = open(t, k, opts)
	}
	k.shows(pod("p", "a::0", "a::1", "b"), pod("q", "a::2"))
	poll(t, b)
	k.pass(time.Minute)
	k.shows(pod("q", "a::2"))
	poll(t, b)
	if d := cmp.Diff([]Ended{{Ref{KindContainer, first}, key("a")}, {Ref{KindContainer, first}, key("b")}}, b.unsent()); d != "" || !b.Held(key("a")) {
		t.Errorf("ended (-want +got):\n%s", d)
	}
	allocate(t, b, "b")
	if third := sole(t, starting(t, b, "b")); third == first {
		t.Error("an ID is used again")
	}
}

// Verifies that a unit that is allocated again has a new holder, that the earlier one ends
// with its last unit of a device, and that an init container whose units went to two
// containers has the holders of both.
func TestAllocatedToALaterContainer(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	allocate(t, b, "a::0", "a::1")
	early := sole(t, starting(t, b, "a::0", "a::1"))
	allocate(t, b, "a::0")
	if got := b.unsent(); got != nil {
		t.Errorf("ended with a unit left: %v", got)
	}
	allocate(t, b, "a::1")
	if d := cmp.Diff([]Ended{{Ref{KindContainer, early}, key("a")}}, b.unsent()); d != "" {
		t.Errorf("ended (-want +got):\n%s", d)
	}
	both := starting(t, b, "a::0", "a::1")
	if len(both) != 2 || both[0] != sole(t, starting(t, b, "a::0")) || both[1] != sole(t, starting(t, b, "a::1")) {
		t.Errorf("holders of the init container: %q", both)
	}
}

// Verifies that containers which the book learns of from kubelet's list, or at their
// start, are holders: one for the units of a container.
func TestHoldersThatWereNotAllocated(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	k.shows(pod("p", "a", "b"), pod("q", "c"))
	poll(t, b)
	listed := sole(t, starting(t, b, "a", "b"))
	started := sole(t, starting(t, b, "d", "e"))
	if started == listed || sole(t, starting(t, b, "c")) == listed || sole(t, starting(t, b, "d", "e")) != started {
		t.Error("containers share a holder, or one has another holder each time")
	}
}

// Verifies that a device of which nobody knows yet whether another holder has it is sent
// when that is known.
func TestEndedWaitsForTheList(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	b.ended.sent[Ended{Ref{KindContainer, "h"}, key("a")}] = false
	must(t, b.Close())
	b = open(t, k, opts)
	b.Suspect(key("a"))
	if got := b.unsent(); got != nil {
		t.Errorf("sent before kubelet was asked: %v", got)
	}
	drain(b.ended.added)
	poll(t, b)
	if got := b.unsent(); !drain(b.ended.added) || len(got) != 1 {
		t.Errorf("sent after kubelet was asked: %v", got)
	}
}

// Verifies that Store has the holders on disk when it returns, writes nothing that the file
// has, and nothing after Close: another agent may have the file then.
func TestStore(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	writes := 0
	opts.Disk.Before = func(op checkpoint.Op, _ string) error {
		if op == checkpoint.OpRename {
			writes++
		}
		return nil
	}
	b := open(t, k, opts)
	allocate(t, b, "a")
	holder := sole(t, starting(t, b, "a"))
	for range 2 {
		must(t, b.Store())
	}
	if s, err := readState(opts.Path); err != nil || len(s.Holds) != 1 || s.Holds[0].Holder != holder || writes != 1 {
		t.Errorf("%+v, %v after %d writes", s, err, writes)
	}
	must(t, b.Close())
	allocate(t, b, "b")
	if err := b.Store(); err != nil || writes != 2 {
		t.Errorf("%d writes, want that of Close to be the last", writes)
	}
}

// Verifies that holders whose release is pending are bounded.
func TestEndedIsBounded(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	for range maxEnded + 2 {
		allocate(t, b, "a")
	}
	if got := len(b.unsent()); got != maxEnded {
		t.Errorf("%d, want %d", got, maxEnded)
	}
}
