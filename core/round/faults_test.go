package round

import (
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a fault is added to all units of its device, beside those that it has, and
// that nothing else changes.
func TestWithFaults(t *testing.T) {
	a, b := deviceWith("a"), deviceWith("b")
	grave := health.Fault{Code: "grave", Recovery: inventory.RecoveryReboot}
	table := &resource.Table{Resources: []*resource.Resource{
		{Name: "x/shared", Units: []resource.Unit{
			{ID: "a::0", Device: a, Verdict: health.Verdict{Faults: []health.Fault{grave}}},
			{ID: "a::1", Device: a, Verdict: health.Verdict{Faults: []health.Fault{grave}}},
		}},
		{Name: "x/other", Units: []resource.Unit{{ID: "b", Device: b, Verdict: health.Verdict{Healthy: true}}}},
	}}
	fault := health.Fault{Code: codeNoNode, Recovery: inventory.RecoverySelf}
	got := WithFaults(table, map[inventory.Key]health.Fault{a.Key: fault})
	for i, u := range got.Resources[0].Units {
		if u.Verdict.Healthy || len(u.Verdict.Faults) != 2 || u.Verdict.Faults[0] != grave || u.Verdict.Faults[1] != fault {
			t.Errorf("unit %s has %+v, want both faults, the gravest first", u.ID, u.Verdict)
		}
		if before := table.Resources[0].Units[i]; len(before.Verdict.Faults) != 1 {
			t.Errorf("the table before was changed: %+v", before.Verdict)
		}
	}
	if got.Resources[1] != table.Resources[1] {
		t.Error("a resource without such a device was copied")
	}
}
