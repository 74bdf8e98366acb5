package device

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/devicetree"
)

// A node that a program makes is found without an event of the kernel, also in a directory that
// it makes, and so is its end.
func TestNodesAreWatched(t *testing.T) {
	t.Parallel()
	tree := devicetree.New(t, "sys/dev/char/240:0 -> ../../devices/acme/acme0\nsys/devices/acme/acme0/dev: 240:0")
	host := tree.Host()
	b := newBackend(slog.New(slog.DiscardHandler), match.Finder{Node: devicetree.Node}, (&ueventtest.Kernel{}).Listen)
	b.monitor = b.watchNodes
	server, err := sdk.NewServer(b, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Configure(context.Background(), &backendv1.ConfigureRequest{
		SettingsJson: json.RawMessage(`{"interval": "1h", "kinds": [{"name": "acme", "match": {"paths": ["/dev/acme/[0-9]*"]}}]}`), Revision: 1,
		Paths: &backendv1.HostPaths{Sysfs: host.Sysfs, Devfs: host.Devfs, Procfs: host.Procfs},
	}); err != nil {
		t.Fatal(err)
	}
	w := sdktest.Watch(t, server, time.Second, time.Minute)
	devices := func(n int) {
		t.Helper()
		w.Until("devices", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == n })
	}
	devices(0)
	tree.Change(t, "dev/acme/0: c 240:0")
	devices(1)
	tree.Change(t, "- dev/acme\n- sys/devices/acme/acme0")
	devices(0)
}

// The nodes of a directory are read again when one appears there, by an event of the kernel or of the directory.
func TestNodesOfADirectory(t *testing.T) {
	t.Parallel()
	cfg, err := configure(json.RawMessage(`{"kinds": [{"name": "rig", "match": {"paths": ["/dev/rig"]}}]}`), sdk.HostPaths{Devfs: "/host/dev"})
	if want := []string{"/host/dev", "/host/dev/rig"}; err != nil || !slices.Equal(cfg.nodeDirs(), want) {
		t.Errorf("watched are %v, %v", cfg.nodeDirs(), err)
	}
	if !cfg.wantsNode("/host/dev/rig/a") || !cfg.wantsNode("/host/dev/rig/more/b") || cfg.wantsNode("/host/dev/rigs") {
		t.Error("other nodes are wanted than those of the directory")
	}
	run(t, "", "dev/rig/a: c 240:0", `{"interval": "1h", "kinds": [{"name": "rig", "match": {"paths": ["/dev/rig"]}}]}`, func(r *rig) {
		nodes := func(n int) func(*backendv1.Device) bool {
			return func(d *backendv1.Device) bool { return len(d.GetEdits().GetDeviceNodes()) == n }
		}
		r.device("rig", "one node", nodes(1))
		r.change("dev/rig/more/b: c 240:1", uevent.Add, "/devices/rig/b", "rig", "DEVNAME=rig/more/b")
		r.device("rig", "two nodes", nodes(2))
		r.change("- dev/rig", uevent.Remove, "/devices/rig/b", "rig", "DEVNAME=rig/more/b")
		r.device("rig", "gone", nil)
	})
}

// The directories that are watched are those that patterns name, and those above.
func TestNodeDirs(t *testing.T) {
	t.Parallel()
	cfg, err := configure(json.RawMessage(`{"kinds": [{"name": "a", "match": {"paths": ["/dev/a/b/c[0-9]", "/dev/d*/e/f", "/sys/class/x/y*"]}}]}`), sdk.HostPaths{Devfs: "/host/dev"})
	if want := []string{"/host/dev", "/host/dev/a", "/host/dev/a/b"}; err != nil || !slices.Equal(cfg.nodeDirs(), want) {
		t.Errorf("%v, %v", cfg.nodeDirs(), err)
	}
}
