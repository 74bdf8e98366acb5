package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that resources count as held only when every backend has reported: one
// that is registered before would be empty until its units come.
func TestHeldNamesWaitForBackends(t *testing.T) {
	p := &plan{profile: &config.Profile{Backends: []config.Backend{{Name: "mock"}, {Name: "other"}}}}
	held := map[inventory.Key][]holders.Hold{
		keyA: {{Resource: "ex.com/a", Unit: "a::0"}, {Resource: "ex.com/a", Unit: "a::1"}}, keyB: {{Resource: "ex.com/b", Unit: "b"}},
	}
	mock, other := &inventory.Backend{Name: "mock"}, &inventory.Backend{Name: "other"}
	if names := heldNames(p, &inventory.Snapshot{Backends: []*inventory.Backend{mock}}, held); len(names) > 0 {
		t.Errorf("held before all have reported: %v", names)
	}
	want := map[string]bool{"ex.com/a": true, "ex.com/b": true}
	if diff := cmp.Diff(want, heldNames(p, &inventory.Snapshot{Backends: []*inventory.Backend{mock, other}}, held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}
