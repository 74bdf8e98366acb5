package cdi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that edits are checked against the host when a definition is to be written, of a
// device and of a holder, that a refusal costs that device alone, and what is held stays.
func TestWhatIsWrittenIsCheckedOnTheHost(t *testing.T) {
	refused, checks := "", 0
	dir := t.TempDir()
	s := openWith(t, cdi.Options{Dir: dir, OnHost: func() inventory.OnHost {
		return func(name string, e inventory.Edits) (inventory.Edits, error) {
			checks++
			for _, value := range e.Env.All() {
				if value == refused && name == backend {
					return inventory.Edits{}, errors.New("leads elsewhere")
				}
			}
			return e, nil
		}
	}})
	refused = "1"
	names := s.Publish([]*inventory.Device{device("a", "1"), device("b", "2")}, nobody)
	if _, err := names.Qualified(key("a")); err == nil || !strings.Contains(err.Error(), "device mock/a is not defined for CDI: leads elsewhere") {
		t.Errorf("a: %v", err)
	}
	gone(t, dir, "mock.accelmux.io/gpu=a")
	if got := env(t, dir, qualified(t, names, "b")); got != "VALUE=2" {
		t.Errorf("b gets %q", got)
	}
	refused, checks = "", 0
	a := qualified(t, s.Publish([]*inventory.Device{device("a", "1"), device("b", "2")}, nobody), "a")
	if got := env(t, dir, a); got != "VALUE=1" || checks != 1 {
		t.Errorf("a gets %q after %d checks, want 1, of what is new", got, checks)
	}
	refused = "3"
	names = s.Publish([]*inventory.Device{device("a", "3"), device("b", "2")}, everyone)
	if _, err := names.Qualified(key("a")); err == nil {
		t.Error("a changed definition is not checked")
	}
	if got := env(t, dir, a); got != "VALUE=1" {
		t.Errorf("the holder of a has %q", got)
	}
	refused = "one"
	if err := s.Define([]cdi.HolderDefinition{unitsOf("two", "b"), unitsOf("one", "a")}, alive()); err == nil || !strings.Contains(err.Error(), "leads elsewhere") {
		t.Errorf("a holder's definition: %v", err)
	}
	gone(t, dir, unitsOf("two", "b").Name)
	define(t, s, unitsOf("two", "b"))
}
