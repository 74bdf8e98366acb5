package health

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the faults of a backend whose devices get new ones without end stay within its
// budget, that the gravest fault of each device stays, that Notes has the problem, and that
// other backends and recovery are not affected.
func TestBudgetOfABackend(t *testing.T) {
	const devices, rounds = 1000, 8
	r := newRig(t, "other")
	r.say("other", faulty("x", reset))
	words := strings.Repeat("w", 1000)
	b := &inventory.Backend{Name: "many"}
	report := func(health func(device int) inventory.Health) {
		next := &inventory.Backend{Name: "many", Generation: b.Generation + 1}
		for i := range devices {
			next.Devices = append(next.Devices, &inventory.Device{
				Key:   inventory.Key{Backend: "many", ID: fmt.Sprint("d", i)},
				Edits: inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/null"}}}, Health: health(i),
			})
		}
		b = next
		r.last = r.judge.Judge(&inventory.Snapshot{Generation: next.Generation, Backends: append([]*inventory.Backend{next}, r.store.Snapshot().Backends...)})
	}
	for round := range rounds {
		report(func(i int) inventory.Health {
			recovery := inventory.RecoverySelf
			if round == 1 {
				recovery = inventory.RecoveryReboot
			}
			return inventory.Health{State: inventory.StateUnhealthy, Code: fmt.Sprint("c", round, "-", i), Message: words, Recovery: recovery}
		})
	}
	if n := r.judge.remembered()["many"]; n > maxRemembered {
		t.Errorf("%d bytes are remembered, want %d at most", n, maxRemembered)
	}
	for i := range devices {
		v := r.last.Verdict(inventory.Key{Backend: "many", ID: fmt.Sprint("d", i)})
		if v.Healthy || v.Faults[0].Code != fmt.Sprint("c1-", i) {
			t.Fatalf("the verdict on device %d is %+v, want its gravest fault", i, v)
		}
	}
	if v := r.last.Verdict(key("other")); len(v.Faults) != 1 || v.Faults[0].Code != "x" {
		t.Errorf("the other backend's device has %+v", v)
	}
	notes := func() string { return strings.Join(r.judge.Notes(), "\n") }
	if !strings.Contains(notes(), "the faults of backend many take more than") {
		t.Errorf("notes are %q", notes())
	}
	recovered := func(int) inventory.Health { return inventory.Health{State: inventory.StateHealthy, Recovered: true} }
	report(recovered)
	r.now = r.now.Add(testDelay)
	report(recovered)
	if v := r.last.Verdict(inventory.Key{Backend: "many", ID: "d0"}); !v.Healthy || notes() != "" {
		t.Errorf("recovered, the verdict is %+v and the notes are %q", v, notes())
	}
}
