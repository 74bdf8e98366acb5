package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/usage"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies when a group is reset again: after a reset that failed, when its pause
// is over; after one that worked, when the fault began anew or does not go.
func TestResetIsDue(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	worked := attempt{worked: at(0), next: at(10 * time.Second)}
	for name, c := range map[string]struct {
		attempt attempt
		need    need
		want    time.Time
	}{
		"the first one":             {attempt{}, need{since: at(0)}, time.Time{}},
		"after one that failed":     {attempt{next: at(20 * time.Second)}, need{since: at(-1), reported: true}, at(20 * time.Second)},
		"fallen again":              {worked, need{since: at(1)}, worked.next},
		"reported all the same":     {worked, need{since: at(-1), reported: true, delay: time.Hour}, at(confirmLimit)},
		"over, and sound so far":    {worked, need{since: at(-1), delay: time.Hour}, at(confirmLimit + time.Hour)},
		"a pause that lasts longer": {attempt{worked: at(0), next: at(time.Hour)}, need{since: at(-1), reported: true}, at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			if due := c.attempt.due(&c.need); !due.Equal(c.want) {
				t.Errorf("due %v after the start, want %v", due.Sub(start), c.want.Sub(start))
			}
		})
	}
}

// Verifies that a device which is held keeps its reset group from being reset,
// also after it has gone from the inventory.
func TestAbsentHolderKeepsGroup(t *testing.T) {
	r := newResets(&Agent{gate: newGate(), book: holding(t, keyB)})
	card := func(key inventory.Key) *inventory.Device { return &inventory.Device{Key: key, ResetGroup: "card"} }
	r.learn(viewOf(card(keyA), card(keyB)))
	alone := viewOf(card(keyA))
	r.learn(alone)
	current := &attempt{}
	r.start(t.Context(), alone, groupOf(card(keyA)), []inventory.Key{keyA}, current)
	if current.running || current.waits == "" {
		t.Errorf("the group is reset although %s is held: %+v", keyB, current)
	}
}

// Verifies that a held device that is away keeps its group also from an agent that
// never saw it: the book knows.
func TestAbsentHolderKeepsGroupOverRestart(t *testing.T) {
	card := func(key inventory.Key) *inventory.Device { return &inventory.Device{Key: key, ResetGroup: "card"} }
	book := holding(t, keyB)
	newResets(&Agent{gate: newGate(), book: book}).learn(viewOf(card(keyA), card(keyB)))
	r := newResets(&Agent{gate: newGate(), book: book})
	alone := viewOf(card(keyA))
	r.learn(alone)
	current := &attempt{}
	r.start(t.Context(), alone, groupOf(card(keyA)), []inventory.Key{keyA}, current)
	if current.running || current.waits == "" {
		t.Errorf("the group is reset although %s is held: %+v", keyB, current)
	}
}

// Verifies that a parent is not reset while one of its partitions is held, also
// if the backend put them into no common reset group.
func TestHeldPartitionKeepsParent(t *testing.T) {
	r := newResets(&Agent{gate: newGate(), book: holding(t, keyB)})
	v := viewOf(&inventory.Device{Key: keyA}, &inventory.Device{Key: keyB, Parent: keyA.ID})
	current := &attempt{}
	r.start(t.Context(), v, groupOf(v.device(keyA)), []inventory.Key{keyA}, current)
	if current.running || current.waits == "" {
		t.Errorf("the parent is reset although its partition is held: %+v", current)
	}
}

// viewOf is a view of devices of one backend that no resource has.
func viewOf(devices ...*inventory.Device) *view {
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: keyA.Backend, Devices: devices}}}
	return (&view{snapshot: snapshot, table: &resource.Table{}}).indexed(nil)
}

// holding is a book in which a container holds the device.
func holding(t *testing.T, key inventory.Key) *usage.Book {
	t.Helper()
	book, err := usage.Open(usage.Options{
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot", Socket: "/nowhere",
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	book.Allocated("example.com/gpu", []usage.Claim{{Unit: key.ID, Key: key}})
	return book
}

// Verifies that a reset that is refused for all devices of a group says why once.
func TestUnrecovered(t *testing.T) {
	one, two, three := inventory.Key{ID: "a"}, inventory.Key{ID: "b"}, inventory.Key{ID: "c"}
	failed := func(why string) *backendv1.ResetResult { return &backendv1.ResetResult{Message: why} }
	for name, c := range map[string]struct {
		results map[string]*backendv1.ResetResult
		want    string
	}{
		"all the same": {map[string]*backendv1.ResetResult{"a": failed("in use"), "b": failed("in use"), "c": failed("in use")},
			"3 devices, the first a, did not recover: in use"},
		"each its own": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": failed("hot"), "c": failed("dead")},
			"device b did not recover: hot\ndevice c did not recover: dead"},
		"no answer": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": {Recovered: true}},
			"device c did not recover: " + orNothing("")},
		"all well": {map[string]*backendv1.ResetResult{"a": {Recovered: true}, "b": {Recovered: true}, "c": {Recovered: true}}, ""},
	} {
		got := ""
		if err := unrecovered([]inventory.Key{one, two, three}, c.results); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
