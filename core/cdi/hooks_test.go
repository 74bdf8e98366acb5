package cdi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

// hooked is a device with hooks, each a program of that name.
func hooked(id string, programs ...string) *inventory.Device {
	d := device(id, id)
	for _, program := range programs {
		d.Edits.Hooks = append(d.Edits.Hooks, inventory.OCIHook{Name: "createContainer", Path: "/bin/" + program})
	}
	return d
}

// run are the programs of the hooks that a container with these names runs, in
// order.
func run(t *testing.T, dir string, names ...string) []string {
	t.Helper()
	spec, err := inject(t, dir, names...)
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	if spec.Hooks != nil {
		for _, h := range spec.Hooks.CreateContainer {
			programs = append(programs, filepath.Base(h.Path))
		}
	}
	return programs
}

// Hooks with which all devices begin run once in a container, in their order,
// whatever devices it gets; hooks of one device run for that.
func TestHooksOfAllRunOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	names := s.Publish([]*inventory.Device{hooked("a", "ldcache", "links", "mine"), hooked("b", "ldcache", "links")}, nobody)
	a, b := qualified(t, names, "a"), qualified(t, names, "b")
	for _, tc := range []struct{ names, want []string }{
		{[]string{a}, []string{"ldcache", "links", "mine"}},
		{[]string{b}, []string{"ldcache", "links"}},
		{[]string{b, a}, []string{"ldcache", "links", "mine"}},
	} {
		if diff := cmp.Diff(tc.want, run(t, dir, tc.names...)); diff != "" {
			t.Errorf("hooks of %v (-want +got):\n%s", tc.names, diff)
		}
	}

	// A device that begins otherwise costs the others only that they share.
	names = s.Publish([]*inventory.Device{hooked("a", "ldcache", "links", "mine"), hooked("b", "ldcache", "links"), hooked("c", "other")}, everyone)
	if diff := cmp.Diff([]string{"ldcache", "links", "mine"}, run(t, dir, a)); diff != "" {
		t.Errorf("hooks of %s beside another (-want +got):\n%s", a, diff)
	}
	if diff := cmp.Diff([]string{"other"}, run(t, dir, qualified(t, names, "c"))); diff != "" {
		t.Errorf("hooks of the other (-want +got):\n%s", diff)
	}
}

// What an earlier run has shared is known after a restart, and not written again.
func TestSharedHooksAfterARestart(t *testing.T) {
	dir := t.TempDir()
	devices := []*inventory.Device{hooked("a", "ldcache", "mine"), hooked("b", "ldcache")}
	open(t, dir).Publish(devices, nobody)
	before, err := os.Stat(filepath.Join(dir, gpuFile))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for _, d := range s.Definitions() {
		if d.Device == key("a") && len(d.Edits.Hooks) != 2 {
			t.Errorf("%s has %d hooks after a restart, want 2", d.Name, len(d.Edits.Hooks))
		}
	}
	names := s.Publish(devices, everyone)
	if got := qualified(t, names, "a"); got != "mock.accelmux.io/gpu=a" {
		t.Errorf("the device is %s after a restart: its definition was taken for another", got)
	}
	after, err := os.Stat(filepath.Join(dir, gpuFile))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the file was written again")
	}
}
