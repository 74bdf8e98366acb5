package holders

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

// When a list that does not name an allocation ends it.
func TestListIsBelievedOnlyIfItCanBe(t *testing.T) {
	second, minute := time.Second, time.Minute
	for name, tc := range map[string]struct {
		seen    bool          // it was listed once
		age     time.Duration // of the allocation, when the list began
		up      time.Duration // of kubelet
		noPods  bool          // the list is empty altogether
		absent  bool          // there is no list
		during  bool          // it was allocated again while the list was made
		release bool
	}{
		"gone":                        {seen: true, age: minute, up: time.Hour, release: true},
		"just allocated":              {seen: true, age: 0, up: time.Hour},
		"within the grace":            {seen: true, age: 29 * second, up: time.Hour},
		"at the end of the grace":     {seen: true, age: 30 * second, up: time.Hour, release: true},
		"never seen":                  {age: 29 * minute, up: time.Hour},
		"never seen for long":         {age: 30 * minute, up: time.Hour, release: true},
		"kubelet has just started":    {seen: true, age: minute, up: 29 * second},
		"kubelet lists nothing yet":   {seen: true, age: time.Hour, up: 299 * second, noPods: true},
		"there is really no pod":      {seen: true, age: time.Hour, up: 300 * second, noPods: true, release: true},
		"kubelet is gone":             {seen: true, age: time.Hour, up: time.Hour, absent: true},
		"another pod has it meantime": {seen: true, age: time.Hour, up: time.Hour, during: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet()
			b := open(t, k, options(t, k))
			allocate(t, b, "a")
			if tc.seen {
				k.shows(pod("p", "a"))
				poll(t, b)
			}
			k.pass(tc.age)
			k.shows()
			k.up, k.absent = tc.up, tc.absent
			if tc.noPods {
				k.pods = nil
			}
			if tc.during {
				k.during = func() { allocate(t, b, "a") }
			}
			if err := b.opts.Kubelet.Poll(t.Context()); (err != nil) != tc.absent {
				t.Fatal(err)
			}
			if got := !b.Held(key("a")); got != tc.release {
				t.Errorf("released: %v, want %v", got, tc.release)
			}
			if tc.absent && len(b.opts.Kubelet.Notes()) != 1 {
				t.Errorf("notes %q", b.opts.Kubelet.Notes())
			}
		})
	}
}

// A device is held from its allocation until its last unit is listed no more, which is
// reported once.
func TestSharedDevice(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	if b.Held(key("a")) {
		t.Error("held before it is allocated")
	}
	allocate(t, b, "a::0", "a::1")
	if !b.Held(key("a")) || b.Held(key("b")) {
		t.Error("not held by allocation alone, or another device is")
	}
	k.shows(pod("p", "a::0"), pod("q", "a::1"))
	poll(t, b)
	want := []string{"a::0 ns/p/main", "a::1 ns/q/main"}
	if diff := cmp.Diff(want, users(b, "a")); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	k.pass(time.Minute)
	k.shows(pod("q", "a::1"))
	poll(t, b)
	if !b.Held(key("a")) || endedKeys(b) != nil {
		t.Error("released though one replica is held")
	}
	k.shows()
	poll(t, b)
	if diff := cmp.Diff([]inventory.Key{key("a")}, endedKeys(b)); b.Held(key("a")) || diff != "" {
		t.Errorf("released after the last replica (-want +got):\n%s", diff)
	}
	if got := endedKeys(b); got != nil || b.AllocationsOf(key("a")) != nil {
		t.Errorf("reported twice: %v, or still allocated", got)
	}
}

// Verifies that a unit that is allocated again has a new holder, and that the earlier
// one has ended.
func TestAllocatedAgain(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	allocate(t, b, "a")
	k.shows(pod("p", "a"))
	poll(t, b)
	k.pass(time.Minute)
	allocate(t, b, "a")
	want := []string{"a"}
	if diff := cmp.Diff(want, users(b, "a")); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	k.shows()
	poll(t, b)
	if !b.Held(key("a")) {
		t.Error("a list ended the new holder with the old one's age")
	}
	k.pass(time.Hour)
	poll(t, b)
	if b.Held(key("a")) {
		t.Error("still held")
	}
	allocate(t, b, "a")
	if diff := cmp.Diff([]inventory.Key{key("a"), key("a")}, endedKeys(b)); diff != "" {
		t.Errorf("devices of earlier holders (-want +got):\n%s", diff)
	}
	// The unit now stands for another device: the first has no holder any more.
	take(t, b, gpu, []Unit{{ID: "a", Device: key("z")}})
	if diff := cmp.Diff([]inventory.Key{key("a")}, endedKeys(b)); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	if b.Held(key("a")) || !b.Held(key("z")) {
		t.Error("the hold did not move")
	}
}

// A list that began before an allocation says nothing of its holder.
func TestListFromBeforeTheAllocation(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	k.shows(pod("earlier", "a"))
	k.during = func() { k.pass(time.Second); allocate(t, b, "a") }
	poll(t, b)
	want := []string{"a"}
	if diff := cmp.Diff(want, users(b, "a")); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

// What is listed but not in the book (its note was lost) is held; what belongs to
// others is not looked at.
func TestListedButNotNoted(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	opts.Owns = func(resource string) bool { return resource == gpu }
	b := open(t, k, opts)
	k.shows(pod("p", "a"), podOf("q", "other.com/nic", "b"), pod("r", "strange::1"))
	poll(t, b)
	if !b.Held(key("a")) || b.Held(key("b")) {
		t.Error("what kubelet lists of ours is not held, or of others is")
	}
	if !b.Held(key("strange")) {
		t.Error("a device that nobody knows yet is not held")
	}
	k.shows(pod("p", "a"))
	poll(t, b)
	if b.Held(key("strange")) {
		t.Error("still held")
	}
	k.pass(time.Minute)
	k.shows()
	poll(t, b)
	if b.Held(key("a")) || len(endedKeys(b)) != 1 {
		t.Error("not released")
	}
}

// Suspects are held until the book is complete, for which kubelet must be up for
// a while.
func TestSuspects(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	b.Suspect(key("a"), key("b"))
	if complete(b) || !b.Held(key("a")) || b.Held(key("c")) {
		t.Error("suspects are not held, or more than they")
	}
	k.up = time.Second
	poll(t, b)
	if complete(b) || !b.Held(key("a")) {
		t.Error("the list of a kubelet that has just started was accepted")
	}
	k.up = time.Hour
	k.shows(pod("p", "b"))
	poll(t, b)
	if !complete(b) || b.Held(key("a")) || !b.Held(key("b")) {
		t.Error("a list of a kubelet that has finished its start was not accepted")
	}
	b.Suspect(key("a"))
	if b.Held(key("a")) {
		t.Error("suspected though the book is complete")
	}
	select {
	case <-b.Changed():
	default:
		t.Error("the change was not reported")
	}
}

// Verifies suspects that kubelet lists under a resource name that is no longer configured:
// if the state file is lost, the container has them until it is gone; if it is not lost,
// such an entry is ignored.
func TestSuspectUnderAnOldName(t *testing.T) {
	for name, c := range map[string]struct {
		file string // content; "" for none
		held bool
	}{
		"no notes":      {"", true},
		"damaged notes": {"nonsense", true},
		"unreadable":    {"in the way", true},
		"notes":         {"kept", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet()
			opts := options(t, k)
			owned := map[string]bool{gpu: true}
			opts.Owns = func(resource string) bool { return owned[resource] }
			switch c.file {
			case "":
			case "kept":
				must(t, open(t, k, opts).save())
			case "in the way":
				must(t, os.Mkdir(opts.Path, 0o700))
			default:
				must(t, os.WriteFile(opts.Path, []byte(c.file), 0o600))
			}
			opts.Resolve = func(string, string) (inventory.Key, bool) { return inventory.Key{}, false }
			b := open(t, k, opts)
			twin := inventory.Key{Backend: "other", ID: "twin"}
			b.Suspect(key("a"), key("b"), key("twin"), key("away"), twin)
			k.shows(podOf("p", "old.com/gpu", "a::1", "twin"), podOf("q", "other.com/nic", "c"), podOf("r", gpu, "away"))
			for range 2 { // the second list comes when there are no suspects any more
				poll(t, b)
				owned[gpu] = false // it is not configured any more
				if c.held && !b.Held(key("away")) {
					t.Error("a device that is away is not held under a name that was configured until now")
				}
				if b.Held(key("a")) != c.held || b.Held(key("b")) || b.Held(key("c")) || b.Held(twin) {
					t.Errorf("a is held: %v, want %v; b: %v, c: %v, twin: %v, want none of them",
						b.Held(key("a")), c.held, b.Held(key("b")), b.Held(key("c")), b.Held(twin))
				}
			}
			k.pass(time.Minute)
			k.shows()
			poll(t, b)
			if b.Held(key("a")) {
				t.Error("still held when its pod is gone")
			}
		})
	}
}

// An allocation that was refused after all is no hold; one that kubelet has
// listed is.
func TestReturn(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	allocate(t, b, "a", "b")
	k.shows(pod("p", "b"))
	poll(t, b)
	b.Return(gpu, []Unit{unitOf("a"), unitOf("b"), unitOf("never")})
	if b.Held(key("a")) || !b.Held(key("b")) {
		t.Errorf("held: a %v, b %v; want b alone", b.Held(key("a")), b.Held(key("b")))
	}
	if diff := cmp.Diff([]inventory.Key{key("a")}, endedKeys(b)); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
}

// Verifies that the owner of a device is what all of its containers have in common, whatever the
// number of replicas, and nothing while kubelet has not listed one of them.
func TestOwnerOf(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	want := func(when string, want Owner) {
		t.Helper()
		if got := b.OwnerOf(key("a")); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	want("not allocated", Owner{})
	allocate(t, b, "a::0", "a::1")
	want("not listed yet", Owner{})
	k.shows(pod("p", "a::0", "a::1"))
	poll(t, b)
	want("one container with two replicas", Owner{Namespace: "ns", Pod: "p", Container: "main"})
	allocate(t, b, "a::2")
	want("another one that is not listed yet", Owner{})
	k.shows(pod("p", "a::0", "a::1"), pod("q", "a::2"))
	poll(t, b)
	want("two pods", Owner{Namespace: "ns"})
	k.pass(time.Minute)
	k.shows(pod("q", "a::2"))
	poll(t, b)
	want("the other one", Owner{Namespace: "ns", Pod: "q", Container: "main"})
}
