package main

import (
	"testing"

	"github.com/accelmux/accelmux/core/status"
)

// Verifies how the containers that have a device are shown.
func TestHolders(t *testing.T) {
	got := holdersColumn([]status.Holder{
		{Namespace: "team", Pod: "train", Container: "main"},
		{Namespace: "team", Pod: "eval", Container: "main", Ending: true},
		{Resource: "example.com/gpu", Unit: "a"},
	})
	if want := "team/train/main, team/eval/main (ending), a container that kubelet has not listed yet"; got != want {
		t.Errorf("holders are %q, want %q", got, want)
	}
}
