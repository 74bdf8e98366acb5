package cdi_test

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that a variable whose values are joined is not in the definition, where it would
// replace the value in the answer to kubelet, and that a device of nothing else has no name.
func TestJoinedEnvIsNotDefined(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d, alone := device("a", "1"), device("b", "2")
	d.Edits.Env = append(inventory.Named(map[string]string{"JOINED": "1"}), d.Edits.Env...)
	d.Edits.EnvSeparators = inventory.Named(map[string]string{"JOINED": ","})
	alone.Edits.EnvSeparators = inventory.Named(map[string]string{"VALUE": ","})
	names := s.Publish([]*inventory.Device{d, alone}, nobody)
	if got := env(t, dir, qualified(t, names, "a")); got != "VALUE=1" {
		t.Errorf("env %q", got)
	}
	if _, err := names.Qualified(key("b")); err == nil || !strings.Contains(err.Error(), "injection: plain") {
		t.Errorf("a device of nothing else: %v", err)
	}
}
