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

// Verifies that an agent knows from an earlier run a device that is allocated, once its backend has reported without it,
// as long as it is held, and all devices of backends for the inventory; that a backend that does not report keeps
// only its own devices waiting, and loses none; that health alone is no reason to write; and that it starts with a
// damaged file.
func TestEarlierOutlivesTheAgent(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "devices"), slog.New(slog.DiscardHandler)
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
	store := func(m *Earlier, r Round, held map[inventory.Key][]holders.Allocation) {
		t.Helper()
		r.Health, r.Profile = &health.View{}, p
		if m.Store(New(r), held); len(m.Notes()) > 0 {
			t.Fatal(m.Notes())
		}
	}
	listed := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "x", Devices: []*inventory.Device{can, gpu}}, {Name: "y", Devices: []*inventory.Device{bus}}}}
	store(OpenEarlier(path, "boot", log), Round{Snapshot: listed, Table: table}, held)

	x, y := &inventory.Backend{Name: "x"}, &inventory.Backend{Name: "y"}
	was := func(d *inventory.Device) resource.Device {
		stored := *d
		stored.Health.State = inventory.StateUnknown
		return resource.Device{Device: &stored, Resource: "ex.com/" + d.ID}
	}
	removed := func(d *inventory.Device) resource.Device {
		r := was(d)
		r.Removed = true
		return r
	}
	for _, backends := range [][]*inventory.Backend{{}, {x}, {y}, {x, y}} {
		m, snapshot := OpenEarlier(path, "boot", log), &inventory.Snapshot{Backends: backends}
		want := map[inventory.Key]resource.Device{}
		if slices.Contains(backends, x) {
			want[can.Key], want[gpu.Key] = removed(can), removed(gpu)
		}
		if slices.Contains(backends, y) {
			want[bus.Key] = removed(bus)
		}
		var before *Round
		for range 2 { // also in the round after, and in the next run
			removed := Removed(p, snapshot, held, before, m.Devices)
			if diff := cmp.Diff(want, removed); diff != "" {
				t.Fatalf("known after reports of %v (-want +got):\n%s", backends, diff)
			}
			before = New(Round{Snapshot: snapshot, Health: &health.View{}, Table: &resource.Table{}, Removed: removed})
			store(m, *before, held)
		}
	}
	var ids []string
	for _, b := range OpenEarlier(path, "boot", log).Backends() {
		for _, d := range b.Devices {
			ids = append(ids, d.String())
		}
	}
	if diff := cmp.Diff([]string{"x/can0", "x/gpu", "y/bus0"}, ids); diff != "" {
		t.Errorf("for the inventory (-want +got):\n%s", diff)
	}
	m, hot, info := OpenEarlier(path, "boot", log), *gpu, stat(t, path)
	hot.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "hot"}
	listed.Backends[0] = &inventory.Backend{Name: "x", Devices: []*inventory.Device{can, &hot}}
	if store(m, Round{Snapshot: listed, Table: table}, held); !os.SameFile(info, stat(t, path)) {
		t.Error("written for another health")
	}
	store(m, Round{Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{x}}, Table: &resource.Table{}}, map[inventory.Key][]holders.Allocation{bus.Key: held[bus.Key]})
	if diff := cmp.Diff(map[inventory.Key]resource.Device{bus.Key: was(bus)}, OpenEarlier(path, "boot", log).Devices); diff != "" {
		t.Errorf("stored when one is free (-want +got):\n%s", diff)
	}
	store(m, Round{Snapshot: &inventory.Snapshot{}, Table: &resource.Table{}}, nil)
	m = OpenEarlier(path, "next boot", log)
	for range 2 { // until the backend reports, also after a restart
		if d := m.Devices[bus.Key].Device; d == nil || d.Health.Unread != "its backend has not reported since the machine was booted" || d.Health.UnreadSince.IsZero() {
			t.Errorf("after a reboot: %+v", d)
		}
		store(m, Round{Snapshot: &inventory.Snapshot{}, Table: &resource.Table{}}, nil)
		m = OpenEarlier(path, "next boot", log)
	}
	p.Backends = nil
	if store(m, Round{Snapshot: &inventory.Snapshot{}, Table: &resource.Table{}}, nil); len(OpenEarlier(path, "boot", log).Devices) != 3 {
		t.Error("forgotten before a profile is in force")
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := OpenEarlier(path, "boot", log); len(m.Devices) > 0 || len(m.Backends()) > 0 {
		t.Error("read from a damaged file")
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
