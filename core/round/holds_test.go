package round

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a resource counts as held only when the backends of its units have reported: one that
// is registered before would be empty until its devices come.
func TestHeldNamesWaitForBackends(t *testing.T) {
	p := &config.Profile{Backends: []config.Backend{{Name: "mock"}, {Name: "other"}}}
	held := map[inventory.Key][]holders.Allocation{
		{Backend: "mock", ID: "a"}: {{Resource: "ex.com/a", Unit: "a::0"}, {Resource: "ex.com/a", Unit: "a::1"}}, {Backend: "mock", ID: "b"}: {{Resource: "ex.com/b", Unit: "b"}},
		{Backend: "other", ID: "c"}: {{Resource: "ex.com/b", Unit: "c"}}, {Backend: "former", ID: "d"}: {{Resource: "ex.com/d", Unit: "d"}},
	}
	mock, other := &inventory.Backend{Name: "mock"}, &inventory.Backend{Name: "other"}
	want := map[string]bool{"ex.com/a": true, "ex.com/d": true}
	if diff := cmp.Diff(want, HeldResources(p, &inventory.Snapshot{Backends: []*inventory.Backend{mock}}, held)); diff != "" {
		t.Errorf("held while one backend is silent (-want +got):\n%s", diff)
	}
	want["ex.com/b"] = true
	if diff := cmp.Diff(want, HeldResources(p, &inventory.Snapshot{Backends: []*inventory.Backend{mock, other}}, held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// Verifies that a device which is removed while it is allocated stays known as it was last
// seen, until it comes back, is free, or its backend leaves the profile.
func TestRemoved(t *testing.T) {
	p := &config.Profile{Backends: []config.Backend{{Name: "x"}, {Name: "y"}}}
	stages := roundWith(2, 1)
	device := stages.Snapshot.Backends[0].Devices[0]
	held := map[inventory.Key][]holders.Allocation{device.Key: {{Resource: "gpu", Unit: device.ID}}, {Backend: "x", ID: "1"}: {{Resource: "gpu", Unit: "1"}}}
	before := New(stages)
	without := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x", Devices: stages.Snapshot.Backends[0].Devices[1:]}}}
	for range 2 { // also in the round after
		removed := Removed(p, without, held, before, nil)
		if diff := cmp.Diff(map[inventory.Key]resource.Device{device.Key: {Device: device, Resource: "gpu", Removed: true}}, removed); diff != "" {
			t.Fatalf("removed (-want +got):\n%s", diff)
		}
		before = New(Round{Snapshot: without, Health: stages.Health, Table: &resource.Table{}, Removed: removed})
	}
	empty := &resource.Table{Resources: []*resource.Resource{{Resource: config.Resource{Name: "gpu", Replicas: 1}}}}
	if devices := withAllocations(nil, empty, held, before.Removed).Resources[0].Devices; len(devices) != 1 || devices[0].Device != device || devices[0].Verdict.Faults[0].Code != codeGone {
		t.Errorf("the removed devices are %+v", devices)
	}
	moved := *device
	moved.Edits.NetDevices = []inventory.NetDevice{{HostName: "can0", Name: "can0"}}
	removed := map[inventory.Key]resource.Device{device.Key: {Device: &moved, Resource: "gpu", Removed: true}}
	if devices := withAllocations(nil, empty, held, removed).Resources[0].Devices; len(devices) != 1 || !devices[0].Verdict.Healthy || devices[0].Verdict.Faults != nil {
		t.Errorf("a device whose interface is in the container is %+v", devices)
	}
	for name, none := range map[string]map[inventory.Key]resource.Device{
		"listed again":     Removed(p, stages.Snapshot, held, before, nil),
		"free":             Removed(p, without, nil, before, nil),
		"another profile":  Removed(&config.Profile{}, without, held, before, nil),
		"no earlier round": Removed(p, without, held, nil, nil),
	} {
		if len(none) > 0 {
			t.Errorf("%s: removed are %v", name, none)
		}
	}
}

// withAllocations returns a table with the removed devices, and with verdicts that follow from allocations alone.
func withAllocations(p *config.Profile, table *resource.Table, held map[inventory.Key][]holders.Allocation, removed map[inventory.Key]resource.Device) *resource.Table {
	table = WithRemoved(p, table, held, removed)
	return WithVerdicts(table, &health.View{}, Allocated(p, table, held))
}

// Verifies which holds keep a device from being allocated as a unit of a resource.
func TestConflicts(t *testing.T) {
	whole, shared := config.Resource{Name: "gpu", Replicas: 1}, config.Resource{Name: "gpu", Replicas: 2}
	for _, c := range []struct {
		r    config.Resource
		hold holders.Allocation
		want bool
	}{
		{whole, holders.Allocation{Resource: "gpu", Unit: "a"}, false},
		{whole, holders.Allocation{Resource: "other", Unit: "a"}, true},
		{whole, holders.Allocation{Resource: "gpu", Unit: "a::1"}, true},
		{shared, holders.Allocation{Resource: "gpu", Unit: "a::1"}, false},
		{shared, holders.Allocation{Resource: "other", Unit: "a::1"}, false},
		{shared, holders.Allocation{Resource: "gpu", Unit: "a"}, true},
	} {
		table := withAllocations(nil, &resource.Table{Resources: []*resource.Resource{{
			Resource: c.r, Devices: []resource.Device{{Device: deviceWith("a"), Verdict: health.Verdict{Healthy: true}}},
		}}}, map[inventory.Key][]holders.Allocation{{Backend: "mock", ID: "a"}: {c.hold}}, nil)
		if got := !table.Resources[0].Devices[0].Verdict.Healthy; got != c.want {
			t.Errorf("%+v keeps the device from %d replicas of %s: %v, want %v", c.hold, c.r.Replicas, c.r.Name, got, c.want)
		}
	}
}
