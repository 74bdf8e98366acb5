package round

import (
	"testing"

	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a fault is added to its device, beside those that it has, and
// that nothing else changes.
func TestWithFaults(t *testing.T) {
	a, b := deviceWith("a"), deviceWith("b")
	grave := health.Fault{Code: "grave", Recovery: inventory.RecoveryReboot}
	table := &resource.Table{Resources: []*resource.Resource{
		{Devices: []resource.Device{{Device: a, Verdict: health.Verdict{Faults: []health.Fault{grave}}}}},
		{Devices: []resource.Device{{Device: b, Verdict: health.Verdict{Healthy: true}}}},
	}}
	fault := health.Fault{Code: CodeNoNode, Recovery: inventory.RecoverySelf}
	got := WithFaults(table, map[inventory.Key]health.Fault{a.Key: fault})
	if v := got.Resources[0].Devices[0].Verdict; v.Healthy || len(v.Faults) != 2 || v.Faults[0] != grave || v.Faults[1] != fault {
		t.Errorf("the device has %+v, want both faults, the gravest first", v)
	}
	if before := table.Resources[0].Devices[0].Verdict; len(before.Faults) != 1 {
		t.Errorf("the table before was changed: %+v", before)
	}
	if got.Resources[1] != table.Resources[1] {
		t.Error("a resource without such a device was copied")
	}
}

// Verifies that an entry reaches its device and the partitions of it, and that only an entry of a backend that has
// reported can be wrong.
func TestCordoned(t *testing.T) {
	device := func(id, parent string) *inventory.Device {
		return &inventory.Device{Key: inventory.Key{Backend: "b", ID: id}, Parent: parent}
	}
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "b", Devices: []*inventory.Device{device("x", ""), device("x-1", "x"), device("y", "")}}}}
	faults, problems := Cordoned(snapshot, []cordon.Entry{{Device: "b/x", By: "alice"}, {Device: "b/z"}, {Device: "away/x"}})
	if len(faults) != 2 || faults[inventory.Key{Backend: "b", ID: "x-1"}].Message != "cordoned by alice" || faults[inventory.Key{Backend: "b", ID: "x"}].Reach != inventory.ReachNewHolders {
		t.Errorf("the faults are %+v", faults)
	}
	if len(problems) != 1 || problems[0].Device != "z" {
		t.Errorf("the problems are %+v", problems)
	}
}
