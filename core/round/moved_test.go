package round

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that an agent knows from an earlier run a device whose interface is in a container, once all
// backends have reported without it, as long as it is held; and that it starts with a damaged file.
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
	gpu := &inventory.Device{Key: inventory.Key{Backend: "x", ID: "gpu"}}
	held := map[inventory.Key][]holders.Allocation{can.Key: {{Resource: "ex.com/can0", Unit: "can0"}}, gpu.Key: {{Resource: "ex.com/gpu", Unit: "gpu"}}}
	named := func(devices ...*inventory.Device) *resource.Table {
		table := &resource.Table{}
		for _, d := range devices {
			table.Resources = append(table.Resources, &resource.Resource{
				Resource: config.Resource{Name: "ex.com/" + d.ID, Replicas: 1}, Devices: []resource.Device{{Device: d}},
			})
		}
		return table
	}
	listed := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x", Devices: []*inventory.Device{can, gpu}}, {Name: "y"}}}
	if err := OpenMoved(path, log).Store(New(Round{Snapshot: listed, Health: &health.View{}, Table: named(can, gpu)}), held); err != nil {
		t.Fatal(err)
	}

	m := OpenMoved(path, log)
	early, without := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x"}}}, &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x"}, {Name: "y"}}}
	if before := m.Before(p, early, nil); before != nil {
		t.Error("used before every backend has reported")
	}
	if err := m.Store(New(Round{Snapshot: early, Health: &health.View{}, Table: &resource.Table{}}), held); err != nil { // changes nothing
		t.Fatal(err)
	}
	for range 2 {
		before := m.Before(p, without, nil)
		removed := Removed(p, without, held, before)
		if diff := cmp.Diff(map[inventory.Key]*inventory.Device{can.Key: can}, removed); diff != "" {
			t.Fatalf("known (-want +got):\n%s", diff)
		}
		if name := before.ResourceOf(can.Key); name != "ex.com/can0" {
			t.Errorf("its resource is %q", name)
		}
		m = OpenMoved(path, log)
	}
	m.Before(p, without, nil)
	if err := m.Store(New(Round{Snapshot: without, Health: &health.View{}, Table: &resource.Table{}}), nil); err != nil {
		t.Fatal(err)
	}
	if before := OpenMoved(path, log).Before(p, without, nil); before.LastSeen(can.Key) != nil {
		t.Error("known though it is free")
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if before := OpenMoved(path, log).Before(p, without, nil); before != nil {
		t.Error("read from a damaged file")
	}
}
