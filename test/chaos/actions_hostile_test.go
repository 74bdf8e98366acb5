package main

import (
	"testing"

	"github.com/accelmux/accelmux/test/hostile"
)

// A misdeed that only a new process can commit has one killed for it, another has not:
// it would be a crash.
func TestEarly(t *testing.T) {
	want := map[string]bool{
		"garbled-description": true, "hangs-in-configure": true, "crashes-in-watch": true,
		"crashes-in-a-loop": false, "hangs-in-prepare": false, "crashes-in-reset": false, "duplicate-ids": false,
	}
	found := 0
	for _, m := range hostile.All() {
		if begins, ok := want[m.Name]; ok {
			if found++; begins != early(m) {
				t.Errorf("%s: %t, want %t", m.Name, !begins, begins)
			}
		}
	}
	if found != len(want) {
		t.Errorf("only %d of %d misdeeds are there", found, len(want))
	}
}
