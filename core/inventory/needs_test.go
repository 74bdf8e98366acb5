package inventory

import (
	"strings"
	"testing"
)

// Verifies that edits that the configuration allows are refused if the backend does not declare
// them, each with the missing field of the needs.
func TestEditsMustBeDeclared(t *testing.T) {
	for field, undeclare := range map[string]func(*EditScope){
		"device_nodes": func(s *EditScope) { s.Devices = []string{"/dev/other*"} },
		"mounts":       func(s *EditScope) { s.Mounts = nil },
		"hooks":        func(s *EditScope) { s.Hooks = nil },
		"env":          func(s *EditScope) { s.Env = []string{"OTHER_*"} },
		"net_devices":  func(s *EditScope) { s.NetDevices = []string{"eth*"} },
		"gids":         func(s *EditScope) { s.GIDs = nil },
	} {
		desc := testDesc
		undeclare(&desc.Edits)
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
