package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a plain file is no device node, unless files stand in for nodes.
func TestPlainFileAsDeviceNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "acme0")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for devfs, want := range map[string]bool{"/dev": true, filepath.Dir(file): false} {
		for _, node := range []*backendv1.DeviceNode{{Path: file}, {Path: "/dev/acme0", HostPath: file}, {Path: "/dev/null"}} {
			c := &check{Options: Options{HostPaths: HostPaths{Devfs: devfs}}, verdicts: verdicts{over: func() bool { return false }}}
			c.judgeEdits(&backendv1.Device{Id: "a", Edits: &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{node}}})
			v := c.rules[devices]
			if got := v != nil && v.outcome == Fail && strings.Contains(v.reasons[0], "is a plain file"); got != (want && node.GetPath() != "/dev/null") {
				t.Errorf("devfs %s, node %v: refused %v", devfs, node, got)
			}
		}
	}
}
