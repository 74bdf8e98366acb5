package uevent_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
)

func listen(t *testing.T, k *ueventtest.Kernel, want func(uevent.Event) bool) *uevent.Listener {
	t.Helper()
	l, err := k.Listen(want)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// Wanted events arrive in order; other events and malformed messages do not arrive.
func TestOnlyWantedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k ueventtest.Kernel
		l := listen(t, &k, func(e uevent.Event) bool { return e.Subsystem == "pci" })
		k.Send(uevent.Add, "/devices/a", "pci", map[string]string{"PCI_ID": "1002:74A1"})
		k.Send(uevent.Add, "/devices/b", "net", nil)
		k.Send(uevent.Add, "no path", "pci", nil)
		k.Miss()
		k.Send(uevent.Unbind, "/devices/c", "pci", nil)
		synctest.Wait()
		for _, want := range []string{"add /devices/a 1002:74A1", "missed  ", "unbind /devices/c "} {
			e := <-l.Events()
			if got := fmt.Sprint(e.Action, " ", e.DevPath, " ", e.Properties["PCI_ID"]); got != want {
				t.Errorf("%q came, want %q", got, want)
			}
		}
		select {
		case e := <-l.Events():
			t.Errorf("%+v came, too", e)
		default:
		}
	})
}

// Close ends a listener whose reader has stopped reading, and one that waits; the bubble would
// not end if a goroutine were left.
func TestCloseEndsAtOnce(t *testing.T) {
	for name, events := range map[string]int{"waiting": 0, "full": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k ueventtest.Kernel
				l := listen(t, &k, func(uevent.Event) bool { return true })
				for range events {
					k.Send(uevent.Change, "/devices/a", "pci", nil)
				}
				synctest.Wait()
				l.Close()
				l.Close()
				n := 0
				for range l.Events() {
					n++
				}
				if err := l.Err(); err != nil || n > 100 {
					t.Errorf("after it came %d events, and the error is %v", n, err)
				}
			})
		})
	}
}
