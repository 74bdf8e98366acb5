package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// counter is a guard by which each device takes 100 bytes.
type counter struct{ devices, charged int }

func (c *counter) Check(part []byte, of protoreflect.MessageDescriptor) ([]byte, int, error) {
	if of.Name() != "Device" {
		return part, 0, nil
	}
	c.devices++
	return part, 100, c.Charge(100)
}

func (c *counter) Charge(memory int) error {
	c.charged += memory
	return nil
}

// Verifies that of a message only the devices that the earlier one does not have are
// checked, also when their order changed, and that the memory of all of them is charged.
func TestSplitReport(t *testing.T) {
	split := func(before *Report, devices ...*backendv1.Device) (*Report, int) {
		w := inv(7, devices...)
		w.Problems = []string{"a problem"}
		encoded, err := proto.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		guard := &counter{}
		r, err := SplitReport(encoded, before, guard)
		if err != nil || len(r.Devices) != len(devices) || r.GetGeneration() != 7 || len(r.GetProblems()) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if guard.charged != 100*len(devices) {
			t.Errorf("%d bytes are charged for %d devices of 100", guard.charged, len(devices))
		}
		return r, guard.devices
	}
	a, b, c := &backendv1.Device{Id: "a"}, &backendv1.Device{Id: "b"}, &backendv1.Device{Id: "c"}
	first, guarded := split(nil, a, b)
	if guarded != 2 {
		t.Errorf("%d devices of the first message were guarded", guarded)
	}
	second, guarded := split(first, b, c, a)
	if guarded != 1 || second.Devices[0] != first.Devices[1] || second.Devices[2] != first.Devices[0] {
		t.Errorf("%d devices were guarded, want the new one; %q after %q", guarded, second.Devices, first.Devices)
	}
	for name, broken := range map[string][]byte{"tag": {0xff}, "length": {2<<3 | 2, 5, 0}} {
		if _, err := SplitReport(broken, nil, &counter{}); err == nil {
			t.Errorf("a broken %s is no error", name)
		}
	}
}

// Verifies that a device whose check depended on what the host lacks, or that has a defect, is
// checked again with each report, and any device when the policy or the description changes.
func TestStoredChecks(t *testing.T) {
	devfs := t.TempDir()
	s, _ := newTestStore(t)
	policy := testPolicy
	policy.Host.Devfs = devfs
	describe(s, "mock", testDesc, policy)
	node := &backendv1.Device{Id: "a", Class: "gpu", Edits: &backendv1.ContainerEdits{
		DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/acme0"}},
	}}
	other := &backendv1.Device{Id: "b", Class: "gpu", Edits: &backendv1.ContainerEdits{Env: map[string]string{"A": "b"}}}
	stored := func() int { return len(s.sources["mock"].stored) }
	if b := mustReport(t, s, inv(1, node, other)); len(b.Devices) != 2 || stored() != 1 {
		t.Errorf("%d devices, %d stored; want only the one whose node is not missing stored", len(b.Devices), stored())
	}
	if err := os.Mkdir(filepath.Join(devfs, "acme0"), 0o700); err != nil {
		t.Fatal(err)
	}
	if b := mustReport(t, s, inv(2, node, other)); len(b.Devices) != 1 || len(b.Problems) != 1 {
		t.Errorf("the node became a directory: devices %s, problems %v", ids(b.Devices), b.Problems)
	}
	policy.Allowed.Env = nil
	describe(s, "mock", testDesc, policy)
	if b := s.Snapshot().Backends[0]; len(b.Devices) != 0 {
		t.Errorf("with another policy the devices are %s", ids(b.Devices))
	}
	described := testDesc
	described.Classes = []string{"fpga"}
	policy.Allowed.Env = []string{"A"}
	describe(s, "mock", testDesc, policy)
	mustReport(t, s, inv(3, other))
	s.Describe("mock", described)
	if err := report(s, "mock", inv(4, other)); err == nil {
		t.Error("a device is accepted although its class is no longer described")
	}
}

// Verifies that links follow the devices that are listed, also of a device that is not checked
// again.
func TestStoredLinks(t *testing.T) {
	s, _ := newTestStore(t)
	a := &backendv1.Device{Id: "a", Class: "gpu", Links: []*backendv1.Link{{PeerId: "b", Kind: backendv1.LinkKind_LINK_KIND_NVLINK}}}
	b := &backendv1.Device{Id: "b", Class: "gpu"}
	first := mustReport(t, s, inv(1, a, b)).Devices
	second := mustReport(t, s, inv(2, a)).Devices
	third := mustReport(t, s, inv(3, a, b)).Devices
	if len(first[0].Links) != 1 || len(second[0].Links) != 0 || len(third[0].Links) != 1 {
		t.Errorf("links are %v, without the peer %v, with it again %v", first[0].Links, second[0].Links, third[0].Links)
	}
}
