package round

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
)

// deviceWith is a device that has these host paths as its device nodes.
func deviceWith(id string, hostPaths ...string) *inventory.Device {
	d := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}
	for _, path := range hostPaths {
		d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, inventory.DeviceNode{Path: path, HostPath: path, Permissions: "rw"})
	}
	return d
}

// Verifies that device nodes are checked below the root of devfs alone, that links and paths
// that cannot be checked count as present, and when all are checked again.
func TestMissingNodes(t *testing.T) {
	devfs := t.TempDir()
	touch := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(devfs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch("accel0")
	if err := os.Symlink("/dev/not/seen/from/here", filepath.Join(devfs, "link")); err != nil {
		t.Fatal(err)
	}
	made := deviceWith("made", "/dev/accel8")
	made.Edits.DeviceNodes[0].Type, made.Edits.DeviceNodes[0].Major = "c", 240
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock", Devices: []*inventory.Device{
		deviceWith("good", "/dev/accel0", "/dev/link"),
		deviceWith("elsewhere", "/run/driver/dev/accel7"),
		deviceWith("none"),
		made,
		deviceWith("gone", "/dev/accel0", "/dev/accel9"),
		deviceWith("below", "/dev/accel0/x"),
	}}}}
	want := map[inventory.Key]string{
		{Backend: "mock", ID: "gone"}: "/dev/accel9", {Backend: "mock", ID: "below"}: "/dev/accel0/x",
	}
	n := Nodes{Host: hostfs.Host{Devfs: devfs}}
	at := time.Unix(1000, 0)
	if got, _ := n.Missing(snapshot, nil, at); !maps.Equal(got, want) || !n.nextCheck.Equal(at.Add(missingNodesInterval)) {
		t.Errorf("missing %v until %v, want %v", got, n.nextCheck.Sub(at), want)
	}
	want[made.Key] = "/dev/accel8"
	if got, _ := n.Missing(snapshot, map[inventory.Key]bool{made.Key: true}, at); !maps.Equal(got, want) {
		t.Errorf("injected plainly, missing %v, want %v", got, want)
	}
	delete(want, made.Key)
	touch("accel9")
	if got, _ := n.Missing(snapshot, nil, at.Add(time.Second)); !maps.Equal(got, want) {
		t.Errorf("missing %v before the nodes are checked again, want %v", got, want)
	}
	at = n.nextCheck
	delete(want, inventory.Key{Backend: "mock", ID: "gone"})
	if got, _ := n.Missing(snapshot, nil, at); !maps.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
	snapshot.Backends[0].Devices = snapshot.Backends[0].Devices[:5]
	at = n.nextCheck
	if got, _ := n.Missing(snapshot, nil, at); len(got) > 0 || !n.nextCheck.Equal(at.Add(nodesInterval)) {
		t.Errorf("missing %v until %v, want none for %v", got, n.nextCheck.Sub(at), nodesInterval)
	}
	n = Nodes{Host: hostfs.Host{Devfs: filepath.Join(devfs, "no-root")}}
	if got, _ := n.Missing(snapshot, nil, at); len(got) > 0 {
		t.Errorf("without the root of devfs %v are missing, which cannot be known", got)
	}
}
