package round

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Verifies which device nodes, mounts and hook programs are missing, that links in /dev and paths that cannot be checked count
// as present, and when all are checked again.
func TestMissingNodes(t *testing.T) {
	root := t.TempDir()
	devfs := filepath.Join(root, "dev")
	for _, dir := range []string{"dev", "opt/acme"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
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
	with := func(id, mount, hook string) *inventory.Device {
		d := deviceWith(id)
		d.Edits.Mounts = []inventory.Mount{{HostPath: mount}}
		d.Edits.Hooks = []inventory.OCIHook{{Name: "createRuntime", Path: hook}, {Name: "createRuntime", Path: "/opt/own-hook"}, {Name: "startContainer", Path: "/in/container"}}
		return d
	}
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock", Devices: []*inventory.Device{
		deviceWith("good", "/dev/accel0", "/dev/link"),
		deviceWith("elsewhere", "/run/driver/dev/accel7"),
		deviceWith("none"),
		with("files", "/opt/acme", "/opt"), with("mount", "/opt/acme/lib", "/opt"), with("hook", "/opt/acme", "/opt/acme/hook"),
		made,
		deviceWith("gone", "/dev/accel0", "/dev/accel9"),
		deviceWith("below", "/dev/accel0/x"),
	}}}}
	want := map[inventory.Key]string{
		{Backend: "mock", ID: "elsewhere"}: "/run/driver/dev/accel7", {Backend: "mock", ID: "mount"}: "/opt/acme/lib", {Backend: "mock", ID: "hook"}: "/opt/acme/hook",
		{Backend: "mock", ID: "gone"}: "/dev/accel9", {Backend: "mock", ID: "below"}: "/dev/accel0/x",
	}
	n := Nodes{Host: inventory.Host{Host: hostfs.Host{Devfs: devfs}, NetHook: "/opt/own-hook"}}
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
	for _, path := range []string{"run/driver/dev/accel7", "opt/acme/lib", "opt/acme/hook"} {
		if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	snapshot.Backends[0].Devices = slices.DeleteFunc(snapshot.Backends[0].Devices, func(d *inventory.Device) bool { return d.ID == "below" })
	at = n.nextCheck
	if got, _ := n.Missing(snapshot, nil, at); len(got) > 0 || !n.nextCheck.Equal(at.Add(nodesInterval)) {
		t.Errorf("missing %v until %v, want none for %v", got, n.nextCheck.Sub(at), nodesInterval)
	}
	n = Nodes{Host: inventory.Host{Host: hostfs.Host{Devfs: filepath.Join(devfs, "no-root")}}}
	if got, _ := n.Missing(snapshot, nil, at); len(got) > 0 {
		t.Errorf("without the root of devfs %v are missing, which cannot be known", got)
	}
}
