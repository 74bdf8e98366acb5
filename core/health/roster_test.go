package health

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// TestPassesOverFewDevices verifies that a judge who looks at what is new comes to what
// one comes to who looks at all devices each time, whatever is said, skipped, lost, reset
// and listed anew.
func TestPassesOverFewDevices(t *testing.T) {
	few := 0
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		ids := []string{"p0", "p1", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"}
		r := newRig(t, ids[1:]...)
		for i, id := range ids[6:] {
			r.devices[id].ParentId = fmt.Sprintf("p%d", i%2)
		}
		other, err := Open(Options{Path: filepath.Join(t.TempDir(), "health"), BootID: r.boot, Now: r.clock})
		if err != nil {
			t.Fatal(err)
		}
		other.policies = r.judge.policies
		for step := range 150 {
			drawHealth(r, random, ids, other)
			if random.IntN(3) == 0 {
				continue // this snapshot is skipped
			}
			clear(other.rosters)
			roster := r.judge.rosters["mock"]
			got, want := r.judge.Judge(r.store.Snapshot()), other.Judge(r.store.Snapshot())
			if roster != nil && roster == r.judge.rosters["mock"] {
				few++
			}
			if diff := cmp.Diff(want.faults, got.faults); diff != "" || !got.Next.Equal(want.Next) {
				t.Fatalf("seed %d, step %d: next is %v, want %v; faults (-all +few):\n%s", seed, step, got.Next, want.Next, diff)
			}
			if diff := cmp.Diff(flags(other), flags(r.judge)); diff != "" {
				t.Fatalf("seed %d, step %d: what is known (-all +few):\n%s", seed, step, diff)
			}
		}
	}
	if few < 1000 {
		t.Errorf("only %d passes looked at few devices", few)
	}
}

// drawHealth does something that may change verdicts. What is not said to the backend's
// judge by its inventory, other is told, too.
func drawHealth(r *rig, random *rand.Rand, ids []string, other *Judge) {
	id := ids[random.IntN(len(ids))]
	listed := r.devices[id] != nil
	switch random.IntN(12) {
	case 0:
		r.store.Lost("mock")
	case 1:
		r.wait([]time.Duration{time.Second, testDelay, 2 * testHoldover, flapWindow}[random.IntN(4)])
	case 2:
		r.judge.ResetDone(key(id), listed, "x")
		other.ResetDone(key(id), listed, "x")
	case 3:
		if listed {
			delete(r.devices, id)
		} else {
			r.plug(id)
		}
		r.report()
	case 4:
		if listed {
			r.devices[id] = &backendv1.Device{Id: id, Class: "gpu", Health: healthy(), ParentId: r.devices[id].ParentId}
		}
		r.report()
	default:
		if listed {
			codes := []string{"x", "y"}
			said := []*backendv1.Health{healthy(), recovered(), unknown(), faulty(codes[random.IntN(2)], reset), faulty(codes[random.IntN(2)], self)}
			r.say(id, said[random.IntN(len(said))])
		}
	}
}

// TestBackendThatCameBack verifies that a pass does not take for known what was said
// before the backend was away.
func TestBackendThatCameBack(t *testing.T) {
	r := newRig(t, "a", "b")
	r.say("a", faulty("x", self))
	r.want("a", "x:self")
	there := r.store.Snapshot()
	r.judge.Judge(&inventory.Snapshot{Generation: there.Generation + 1})
	delete(r.judge.records, key("a")) // as if it were one of too many that are absent
	if v := r.judge.Judge(there); codes(v, "a") != "x:self" {
		t.Errorf("a has the faults %q", codes(v, "a"))
	}
}
