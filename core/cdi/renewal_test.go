package cdi_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the store releases a device that was replaced by one with the same edits, as
// with each change of health.
func TestReplacedDevicesAreNotKept(t *testing.T) {
	s := open(t, t.TempDir())
	check := func(what string, others ...*inventory.Device) {
		t.Helper()
		first := device("a", "1")
		s.Publish([]*inventory.Device{first}, nobody)
		gone := weak.Make(first)
		s.Publish(append([]*inventory.Device{device("a", "1")}, others...), nobody)
		if runtime.GC(); gone.Value() != nil {
			t.Errorf("after a Publish that changes %s the store still has the device before", what)
		}
	}
	check("nothing")
	check("the list", device("b", "1"))
	runtime.KeepAlive(s)
}
