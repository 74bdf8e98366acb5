package kubelettest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// The second Register of one socket is refused, and the first connection lost
// sight of: when it breaks, nobody notices, until a restart.
func TestDuplicateSocket(t *testing.T) {
	k := start(t, false)
	p := connect(t, k, "p.sock", 3)
	if err := register(t, k, request("p.sock")); err == nil || !strings.Contains(err.Error(), "device plugin already connected") {
		t.Fatalf("error is %v", err)
	}
	if c := k.State().Counts; c.Duplicates != 1 {
		t.Errorf("counts are %+v", c)
	}
	close(p.broken)
	wait(t, k, func(s State) bool { return s.Counts.Broken == 1 })
	if r := k.State().Resources[gpu]; r.Allocatable != 3 || r.Connections != 1 {
		t.Errorf("the loss was noticed: %+v", r)
	}
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	if r := k.State().Resources[gpu]; r.Allocatable != 0 || r.Connections != 0 {
		t.Errorf("after the restart: %+v", r)
	}
}

func TestDuplicateSocketLegacy(t *testing.T) {
	k := start(t, true)
	connect(t, k, "p.sock", 3)
	if err := register(t, k, request("p.sock")); err != nil {
		t.Errorf("1.36 refuses: %v", err)
	}
}

// A restart deletes top-level sockets only, forgets lists and keeps allocations.
func TestRestart(t *testing.T) {
	k := start(t, false)
	connect(t, k, "p.sock", 3)
	if err := os.WriteFile(filepath.Join(k.PluginDir(), "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(k.PluginDir(), "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(k.PluginDir(), "dir"), "p.sock")
	before, err := k.Allocate(t.Context(), "p", "c", gpu, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	for path, stays := range map[string]bool{
		"p.sock": false, "file.sock": true, "dir/p.sock": true, "kubelet.sock": true,
	} {
		if _, err := os.Lstat(filepath.Join(k.PluginDir(), path)); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", path, err == nil, stays)
		}
	}
	if r, known := k.State().Resources[gpu]; !known || r.Capacity != 0 || r.Allocated != 2 {
		t.Errorf("the resource is %+v", r)
	}
	if _, err := k.Allocate(t.Context(), "q", "c", gpu, 1); err == nil {
		t.Error("an allocation without devices")
	}
	after, err := k.Allocate(t.Context(), "p", "c", gpu, 2)
	if err != nil || !slices.Equal(before.Devices, after.Devices) {
		t.Errorf("the pod had %v and has %v: %v", before.Devices, after, err)
	}
	if s, err := k.StartContainer(t.Context(), "p", "c"); err != nil || len(s.CDIDevices) != 2 {
		t.Errorf("a container restart gives %+v: %v", s, err)
	}
}

// A broken stream, for whatever reason, makes all devices unhealthy; after a
// while the resource is gone.
func TestBrokenStream(t *testing.T) {
	for name, tear := range map[string]func(*testing.T, *stub){
		"the plugin ends it": func(_ *testing.T, p *stub) { close(p.broken) },
		"a list over 4 MiB": func(t *testing.T, p *stub) {
			p.send(t, &pluginapi.Device{ID: strings.Repeat("x", 4<<20), Health: pluginapi.Healthy})
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, false)
			p := connect(t, k, "p.sock", 3)
			if _, err := k.Allocate(t.Context(), "p", "c", gpu, 1); err != nil {
				t.Fatal(err)
			}
			tear(t, p)
			wait(t, k, func(s State) bool {
				r := s.Resources[gpu]
				return r.Capacity == 3 && r.Allocatable == 0 && r.Socket == ""
			})
			if _, err := k.Allocate(t.Context(), "q", "c", gpu, 1); err == nil {
				t.Error("an allocation of unhealthy devices")
			}
			k.mu.Lock()
			k.timing.StopGrace = time.Nanosecond
			k.mu.Unlock()
			if _, known := k.State().Resources[gpu]; known {
				t.Error("the resource is still there")
			}
		})
	}
}

// Two connections: the last list counts, and when the newer one breaks the older
// takes over. In 1.36 the end of the older takes the newer with it.
func TestTwoConnections(t *testing.T) {
	for name, legacy := range map[string]bool{"1.37": false, "1.36": true} {
		t.Run(name, func(t *testing.T) {
			k := start(t, legacy)
			older := connect(t, k, "older.sock", 3)
			newer := connect(t, k, "newer.sock", 4)
			older.send(t, healthy(2)...)
			wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 2 })
			newer.send(t, healthy(5)...)
			wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 5 })
			close(older.broken)
			if legacy {
				wait(t, k, func(s State) bool { return s.Counts.Broken == 2 })
				if got := k.Allocatable(gpu); got != 0 {
					t.Errorf("%d allocatable", got)
				}
				return
			}
			wait(t, k, func(s State) bool { return s.Resources[gpu].Connections == 1 })
			if r := k.State().Resources[gpu]; r.Allocatable != 5 || r.Socket != newer.path {
				t.Errorf("the resource is %+v", r)
			}
		})
	}
}
