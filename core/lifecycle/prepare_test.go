package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that a device that a backend may still work on, though its call was given up, is
// neither prepared for another holder nor reset before the call has ended.
func TestPrepareAfterACallThatWasGivenUp(t *testing.T) {
	r := newRig(t)
	device := &inventory.Device{Key: keyA, Class: "gpu", Hooks: inventory.Hooks{Prepare: true}}
	r.round = roundOf(device)
	first := Request{Resource: gpu, Units: []Unit{{ID: "a::0", Device: device}}}
	second := Request{Resource: gpu, Units: []Unit{{ID: "a::1", Device: device}}}
	for _, request := range []Request{first, second} {
		if name, err := r.l.Take(t.Context(), request); err != nil || name == "" {
			t.Fatalf("%q, %v", name, err)
		}
	}
	r.backend.hold = make(chan func(), 1)
	if err := r.l.Prepare(t.Context(), first); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a call that is given up: %v", err)
	}
	end := <-r.backend.hold
	r.backend.hold = nil
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.l.Prepare(short, second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another holder is prepared meanwhile: %v", err)
	}
	r.l.Return(first)
	r.l.Return(second)
	if end, blocker := r.book.BeginReset([]inventory.Key{keyA}); end != nil || blocker != keyA {
		t.Error("the device is reset meanwhile")
	}
	if _, err := r.l.Take(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	end()
	if err := r.l.Prepare(t.Context(), second); err != nil {
		t.Errorf("after the end of the call: %v", err)
	}
}

// Verifies that the CDI definition that Prepare writes has the name that Take returned, also
// if the device of the first unit was removed meanwhile.
func TestDefinitionKeepsItsName(t *testing.T) {
	for name, removed := range map[string]bool{"all devices are there": false, "the first was removed": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			plain, hooked := &inventory.Device{Key: keyA, Class: "gpu"}, &inventory.Device{Key: keyB, Class: "gpu", Hooks: inventory.Hooks{Prepare: true}}
			r.round = roundOf(plain, hooked)
			request := Request{Resource: gpu, Units: []Unit{{ID: "a", Device: plain}, {ID: "b", Device: hooked}}}
			want, err := r.l.Take(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if removed {
				r.round = roundOf(hooked)
				request = Request{Resource: gpu, Units: request.Units[1:], Unknown: []string{"a"}}
			}
			if err := r.l.Prepare(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if all := r.store.Definitions(); len(all) != 1 || all[0].Name != want {
				t.Errorf("definitions %+v, want %s alone", all, want)
			}
		})
	}
}
