package monitor

import (
	"log/slog"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// Verifies that an event stays until the events of its GPU are taken, and that the number of pending
// events is bounded.
func TestInbox(t *testing.T) {
	i, now := newInbox(slog.New(slog.DiscardHandler)), time.Now()
	of := func(gpu string) func(driver.Event) bool {
		return func(e driver.Event) bool { return e.GPU == gpu }
	}
	i.Put(driver.Event{Type: driver.EventXID, GPU: "a", Time: now})
	i.Put(driver.Event{Type: driver.EventXID, GPU: "b", Time: now})
	i.Put(driver.Event{Type: driver.EventXID, GPU: "a", Time: now.Add(2)})
	if taken := i.Take(now.Add(1), of("a")); len(taken) != 1 || len(i.Pending()) != 2 {
		t.Errorf("taken are %v, pending %v, want one of a, and two", taken, i.Pending())
	}
	for range 2 * maxPending {
		i.Put(driver.Event{Type: driver.EventXID, GPU: "b", Time: now})
	}
	if n := len(i.Pending()); n != maxPending {
		t.Errorf("%d events are pending, want %d", n, maxPending)
	}
}
