package kubelettest

import (
	"os"
	"strings"
	"testing"
)

// The watcher finds sockets, finds them again after a restart, and notices when
// they go.
func TestWatcher(t *testing.T) {
	k := start(t, nil)
	serve(t, k.RegistryDir(), ".p.sock", nil)
	p := serve(t, k.RegistryDir(), "p.sock", nil)
	p.send(t, healthy(2)...)
	wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 2 })
	if s := <-p.statuses; !s.GetPluginRegistered() || s.GetError() != "" {
		t.Errorf("status is %v", s)
	}
	// Over a restart the file stays, and is found again.
	<-p.opened
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	<-p.opened
	p.send(t, healthy(3)...)
	wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 3 })
	if c := k.State().Counts; c.Registered != 2 {
		t.Errorf("counts are %+v", c)
	}
	// Without the file the plugin is gone.
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 0 })
}

// A stream that breaks while the file stays is never opened again.
func TestWatcherDoesNotReconnect(t *testing.T) {
	k := start(t, nil)
	p := serve(t, k.RegistryDir(), "p.sock", nil)
	p.send(t, healthy(2)...)
	wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 2 })
	close(p.broken)
	wait(t, k, func(s State) bool { return s.Counts.Broken == 1 })
	// A second plugin is found later than the first would be again.
	q := serve(t, k.RegistryDir(), "q.sock", nil, "example.com/other")
	q.send(t, healthy(1)...)
	wait(t, k, func(s State) bool { return s.Resources["example.com/other"].Allocatable == 1 })
	if c := k.State().Counts; c.Registered != 2 {
		t.Errorf("counts are %+v", c)
	}
}

func TestWatcherRefuses(t *testing.T) {
	k := start(t, nil)
	p := serve(t, k.RegistryDir(), "p.sock", nil, "kubernetes.io/gpu")
	for range 2 { // and it tries again
		if s := <-p.statuses; s.GetPluginRegistered() || !strings.Contains(s.GetError(), "invalid") {
			t.Errorf("status is %v", s)
		}
	}
}
