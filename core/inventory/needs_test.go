package inventory

import (
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that edits that the configuration allows are refused if the backend does not declare
// them, each with the missing field of the needs.
func TestEditsMustBeDeclared(t *testing.T) {
	for field, undeclare := range map[string]func(*EditScope){
		"device_nodes": func(s *EditScope) { s.Devices = []string{"/dev/other*"} },
		"mounts":       func(s *EditScope) { s.Mounts = nil },
		"hooks":        func(s *EditScope) { s.Hooks = nil },
		"env":          func(s *EditScope) { s.Env = []string{"OTHER_*"} },
		"gids":         func(s *EditScope) { s.GIDs = nil },
	} {
		desc := testDesc
		undeclare(&desc.Needs.Edits)
		s, _ := newTestStore(t)
		describe(s, "mock", desc, testPolicy)
		b := mustReport(t, s, inv(1, wireDevice("a")))
		if len(b.Problems) != 1 || !strings.Contains(b.Problems[0].Message, "("+field+")") {
			t.Errorf("%s: problems %+v", field, b.Problems)
		}
		if left := len(b.Devices) == 0; left != (field != "gids") {
			t.Errorf("%s: devices %s", field, ids(b.Devices))
		}
	}
}

// Verifies that needs that grow with new settings apply to listed devices, and that those of a
// new process do not remove devices of the one before it.
func TestNeedsApplyAtOnce(t *testing.T) {
	s, _ := newTestStore(t)
	fewer := testDesc
	fewer.Needs.Edits.Mounts = nil
	describe(s, "mock", fewer, testPolicy)
	if b := mustReport(t, s, inv(1, wireDevice("a"))); len(b.Devices) != 0 {
		t.Fatalf("devices %s", ids(b.Devices))
	}
	for name, desc := range map[string]Description{"more": testDesc, "none": {Classes: testDesc.Classes, Prepare: true, Release: true}} {
		if name == "none" {
			describe(s, "mock", testDesc, testPolicy)
		}
		describe(s, "mock", desc, testPolicy)
		if b := s.Snapshot().Backends[0]; len(b.Devices) != 1 {
			t.Errorf("%s needs: devices %s, problems %+v", name, ids(b.Devices), b.Problems)
		}
	}
	if b := mustReport(t, s, &backendv1.Inventory{Generation: 2}); len(b.Devices) != 0 {
		t.Errorf("devices %s", ids(b.Devices))
	}
}
