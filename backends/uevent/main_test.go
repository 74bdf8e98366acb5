package uevent

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func anything(Event) bool { return true }

// receive returns the next event.
func receive(t *testing.T, l *Listener) Event {
	t.Helper()
	select {
	case e, ok := <-l.Events():
		if !ok {
			t.Fatalf("the events ended: %v", l.Err())
		}
		return e
	case <-time.After(patience.Long):
		t.Fatal("no event came")
	}
	return Event{}
}
