package round

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that an agent knows from an earlier run a device whose interface is in a container, once its
// backend has reported without it, as long as it is held; that a backend that does not report keeps
// only its own devices waiting, and loses none; and that it starts with a damaged file.
func TestMovedOutlivesTheAgent(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "moved"), slog.New(slog.DiscardHandler)
	p := &config.Profile{Backends: []config.Backend{{Name: "x"}, {Name: "y"}}}
	can := &inventory.Device{
		Key: inventory.Key{Backend: "x", ID: "can0"}, Class: "socketcan", NUMANodes: []int{1},
		Attributes: inventory.Named(map[string]inventory.Attribute{
			"interface": {Value: "can0"}, "virtual": {Value: true}, "ports": {Value: []int64{1}}, "driver": {Value: inventory.Version("1.2.3")},
		}),
		Edits: inventory.Edits{NetDevices: []inventory.NetDevice{{HostName: "can0", Name: "can0"}}},
	}
	bus := &inventory.Device{Key: inventory.Key{Backend: "y", ID: "bus0"}, Edits: inventory.Edits{NetDevices: []inventory.NetDevice{{HostName: "bus0", Name: "bus0"}}}}
	gpu := &inventory.Device{Key: inventory.Key{Backend: "x", ID: "gpu"}}
	held := map[inventory.Key][]holders.Allocation{}
	table := &resource.Table{}
	for _, d := range []*inventory.Device{can, bus, gpu} {
		held[d.Key] = []holders.Allocation{{Resource: "ex.com/" + d.ID, Unit: d.ID}}
		table.Resources = append(table.Resources, &resource.Resource{
			Resource: config.Resource{Name: "ex.com/" + d.ID, Replicas: 1}, Devices: []resource.Device{{Device: d}},
		})
	}
	store := func(m *Moved, r Round, held map[inventory.Key][]holders.Allocation) {
		t.Helper()
		r.Health = &health.View{}
		if err := m.Store(New(r), held); err != nil {
			t.Fatal(err)
		}
	}
	listed := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x", Devices: []*inventory.Device{can, gpu}}, {Name: "y", Devices: []*inventory.Device{bus}}}}
	store(OpenMoved(path, log), Round{Snapshot: listed, Table: table}, held)

	x, y := &inventory.Backend{Name: "x"}, &inventory.Backend{Name: "y"}
	canWas, busWas := RemovedDevice{"ex.com/can0", can}, RemovedDevice{"ex.com/bus0", bus}
	for _, backends := range [][]*inventory.Backend{{}, {x}, {y}, {x, y}} {
		m, snapshot := OpenMoved(path, log), &inventory.Snapshot{Backends: backends}
		want := map[inventory.Key]RemovedDevice{}
		if slices.Contains(backends, x) {
			want[can.Key] = canWas
		}
		if slices.Contains(backends, y) {
			want[bus.Key] = busWas
		}
		var before *Round
		for range 2 { // also in the round after, and in the next run
			removed := Removed(p, snapshot, held, before, m.Earlier)
			if diff := cmp.Diff(want, removed); diff != "" {
				t.Fatalf("known after reports of %v (-want +got):\n%s", backends, diff)
			}
			before = New(Round{Snapshot: snapshot, Health: &health.View{}, Table: &resource.Table{}, Removed: removed})
			store(m, *before, held)
		}
	}
	store(OpenMoved(path, log), Round{Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{x}}, Table: &resource.Table{}}, map[inventory.Key][]holders.Allocation{bus.Key: held[bus.Key]})
	if diff := cmp.Diff(map[inventory.Key]RemovedDevice{bus.Key: busWas}, OpenMoved(path, log).Earlier); diff != "" {
		t.Errorf("stored when one is free (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := OpenMoved(path, log); len(m.Earlier) > 0 {
		t.Error("read from a damaged file")
	}
}
