package round

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that the verdict on a device of a table has the faults that package health knows of it, and then the reasons of
// all sources in their order; that a removed device has the reasons alone; and that the table before is as it was.
func TestVerdicts(t *testing.T) {
	a, b, gone := deviceWith("a", "/dev/a"), deviceWith("b", "/dev/b"), deviceWith("gone", "/dev/gone")
	for _, d := range []*inventory.Device{a, gone} {
		d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "grave", Recovery: inventory.RecoveryReboot}
	}
	judge, err := health.Open(health.Options{Path: filepath.Join(t.TempDir(), "health"), BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	judged := judge.Judge(&inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock", Devices: []*inventory.Device{a, b, gone}}}})
	table := &resource.Table{Resources: []*resource.Resource{{Devices: []resource.Device{{Device: a}, {Device: b}, {Device: gone, Removed: true}}}}}
	fault := func(code string) health.Fault { return health.Fault{Code: code} }
	got := WithVerdicts(table, judged, Reasons{a.Key: fault("cordoned")}, nil, Reasons{a.Key: fault("no-node"), gone.Key: fault("removed")})
	for i, want := range []string{"grave cordoned no-node", "", "removed"} {
		verdict, codes := got.Resources[0].Devices[i].Verdict, []string{}
		for _, f := range verdict.Faults {
			codes = append(codes, f.Code)
		}
		if strings.Join(codes, " ") != want || verdict.Healthy != (want == "") {
			t.Errorf("device %s has %v, want %q", got.Resources[0].Devices[i].ID, verdict, want)
		}
	}
	if before := table.Resources[0].Devices[0].Verdict; before.Faults != nil {
		t.Errorf("the table before was changed: %+v", before)
	}
	if own := judged.Verdict(a.Key).Faults; len(own) != 1 {
		t.Errorf("the faults that package health knows were changed: %+v", own)
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
