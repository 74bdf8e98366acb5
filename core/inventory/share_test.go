package inventory

import (
	"testing"
	"unsafe"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func sameText(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

// Verifies that devices of a report have what is equal once, and that one which changes
// later still has it with the device that it was.
func TestDevicesShareWhatIsEqual(t *testing.T) {
	s, _ := newTestStore(t)
	report := func(i *backendv1.Inventory) []*Device {
		t.Helper()
		if err := s.Report("mock", encode(t, i)); err != nil {
			t.Fatal(err)
		}
		return s.Snapshot().Backends[0].Devices
	}
	first := report(inv(1, wireDevice("a"), wireDevice("b")))
	a, b := first[0], first[1]
	check := func(what string, same bool) {
		t.Helper()
		if !same {
			t.Errorf("%s twice", what)
		}
	}
	together := func(a, b *Device) {
		t.Helper()
		check("attributes", &a.Attributes[0] == &b.Attributes[0])
		check("capacities", &a.Capacities[0] == &b.Capacities[0])
		check("NUMA nodes", &a.NUMANodes[0] == &b.NUMANodes[0])
		check("separators", &a.Edits.EnvSeparators[0] == &b.Edits.EnvSeparators[0])
		check("nodes", &a.Edits.DeviceNodes[0] == &b.Edits.DeviceNodes[0])
		check("mounts", &a.Edits.Mounts[0] == &b.Edits.Mounts[0])
		check("hooks", &a.Edits.Hooks[0] == &b.Edits.Hooks[0])
		check("group IDs", &a.Edits.AdditionalGIDs[0] == &b.Edits.AdditionalGIDs[0])
	}
	together(a, b)
	check("the name of the variable", sameText(a.Edits.Env[0].Name, b.Edits.Env[0].Name))
	check("the ID in the variable", sameText(a.Edits.Env[0].Value, a.ID))
	check("the parent", sameText(a.Parent, b.Parent))
	check("the path of a node", sameText(a.Edits.DeviceNodes[0].Path, a.Edits.DeviceNodes[0].HostPath))

	for generation, change := range []func() *backendv1.Inventory{
		func() *backendv1.Inventory { // of one device
			d := wireDevice("a")
			d.Health.Message = "worse"
			return inv(2, d, wireDevice("b"))
		},
		func() *backendv1.Inventory { // of the list
			d := wireDevice("a")
			d.Health.Message = "better"
			return inv(3, d)
		},
	} {
		next := report(change())[0]
		if next == a {
			t.Fatalf("report %d changed nothing", generation+2)
		}
		together(next, a)
		check("the variable", &next.Edits.Env[0] == &a.Edits.Env[0])
	}
}
