package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
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

// Verifies that devices and labels that contradict the manifest's classes, values and labels are found.
func TestLimits(t *testing.T) {
	text := func(value string) *backendv1.Attribute {
		return &backendv1.Attribute{Value: &backendv1.Attribute_StringValue{StringValue: value}}
	}
	for want, next := range map[string]*backendv1.Inventory{
		"": {
			Devices:    []*backendv1.Device{{Id: "a", Class: "gpu", Attributes: map[string]*backendv1.Attribute{"type": text("gpu")}}},
			NodeLabels: []*backendv1.NodeLabel{{Name: "acme.com/a"}},
		},
		"device a is of the class part, of which there are only devices with split: true, as the manifest has it": {Devices: []*backendv1.Device{{Id: "a", Class: "part"}}},
		`device a has the attribute type "GPU", which is none of the manifest's values`: {
			Devices: []*backendv1.Device{{Id: "a", Class: "gpu", Attributes: map[string]*backendv1.Attribute{"type": text("GPU")}}},
		},
		"device a of the class gpu has the attribute profile, which the manifest has for other classes": {
			Devices: []*backendv1.Device{{Id: "a", Class: "gpu", Attributes: map[string]*backendv1.Attribute{"profile": text("1g")}}},
		},
		"the label acme.org/a is none of the manifest's labels: it has acme.com": {NodeLabels: []*backendv1.NodeLabel{{Name: "acme.org/a"}}},
	} {
		c := &check{verdicts: verdicts{over: func() bool { return false }}}
		c.described.Attributes = []inventory.Declaration{{Name: "type"}, {Name: "profile"}}
		c.described.Limits = &inventory.Limits{
			Absent: map[string]string{"part": "split: true"}, Values: map[string][]string{"type": {"gpu", "part"}},
			Owners: map[string]inventory.Owners{"profile": {Classes: []string{"part"}}}, Labels: []string{"acme.com"},
		}
		c.judgeAttributes(next)
		got := ""
		if v := c.rules[attributesRule]; v != nil && v.outcome == Fail {
			got = strings.Join(v.reasons, "; ")
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
