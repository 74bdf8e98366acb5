package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	oci "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// hooked returns a device with hooks, each a program of that name.
func hooked(id string, programs ...string) *inventory.Device {
	d := device(id, id)
	for _, program := range programs {
		d.Edits.Hooks = append(d.Edits.Hooks, inventory.OCIHook{Name: "createContainer", Path: "/bin/" + program})
	}
	return d
}

// run returns the programs of the hooks that a container with these names runs, in order.
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

// gpu returns a device as a vendor's backend reports it: a node and a hook of its own, and the
// driver of a version.
func gpu(id, version string) *inventory.Device {
	d := &inventory.Device{Key: key(id), Class: "gpu"}
	d.Edits.Env = inventory.Named(map[string]string{"DRIVER": version, "VISIBLE": "void"})
	d.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/null", HostPath: "/dev/null", Permissions: "rw"}}
	for i := range 60 {
		lib := fmt.Sprintf("/usr/lib/lib%02d.so", i)
		if i < 2 {
			lib += "." + version
		}
		d.Edits.Mounts = append(d.Edits.Mounts, inventory.Mount{HostPath: lib, ContainerPath: lib, Options: []string{"nosuid", "nodev"}})
	}
	for _, program := range []string{"links", "ldcache", "compat", "chmod", "params", "profile", "limits-of-" + id} {
		d.Edits.Hooks = append(d.Edits.Hooks, inventory.OCIHook{Name: "createContainer", Path: "/bin/" + program})
	}
	return d
}

// gpus returns eight of them.
func gpus(version string) (all []*inventory.Device) {
	for i := range 8 {
		all = append(all, gpu(fmt.Sprint("gpu-", i), version))
	}
	return all
}

// anyOrder is for variables and mounts: a runtime sorts mounts by their depth.
var anyOrder = cmp.Options{
	cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	cmpopts.SortSlices(func(a, b oci.Mount) bool { return a.Destination < b.Destination }),
}

// Verifies that edits of all devices are in the file once and that a container with all of the
// devices gets them once, and that a held definition from before an upgrade keeps its meaning
// and does not change the others.
func TestEditsOfAllAreTheSpecs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	names := s.Publish(gpus("1.0"), nobody)
	var all []string
	for i := range 8 {
		all = append(all, qualified(t, names, fmt.Sprint("gpu-", i)))
	}
	if got := len(run(t, dir, all...)); got != 6+8 {
		t.Errorf("a container with 8 devices runs %d hooks, want 6 of all and 8 of one", got)
	}
	inOrder := []string{"links", "ldcache", "compat", "chmod", "params", "profile", "limits-of-gpu-1"}
	if diff := cmp.Diff(inOrder, run(t, dir, all[1])); diff != "" {
		t.Errorf("hooks of one device (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(dir, gpuFile)); err != nil || info.Size() > 20<<10 {
		t.Errorf("the spec has %d bytes, want less than 20 KiB (%v)", info.Size(), err)
	}
	spec := readSpec(t, filepath.Join(dir, gpuFile))
	if e := spec.ContainerEdits; len(e.Hooks) != 6 || len(e.Mounts) != 60 || len(e.Env) != 2 {
		t.Errorf("the spec's own are %d hooks, %d mounts and %d variables, want 6, 60 and 2", len(e.Hooks), len(e.Mounts), len(e.Env))
	}
	for _, d := range spec.Devices {
		if d.ContainerEdits.DeviceNodes[0].Type != "c" {
			t.Errorf("the node of %s has the type %q: a runtime would accept a block device", d.Name, d.ContainerEdits.DeviceNodes[0].Type)
		}
		if e := d.ContainerEdits; len(e.DeviceNodes) != 1 || len(e.Hooks) != 1 || len(e.Mounts) != 0 || len(e.Env) != 0 {
			t.Errorf("%s has %d nodes, %d hooks, %d mounts and %d variables, want 1, 1, 0 and 0",
				d.Name, len(e.DeviceNodes), len(e.Hooks), len(e.Mounts), len(e.Env))
		}
	}

	before, err := inject(t, dir, all[3])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time after a restart
		names = s.Publish(gpus("2.0"), holding("gpu-3"))
		if after, err := inject(t, dir, all[3]); err != nil || cmp.Diff(before, after, anyOrder) != "" {
			t.Errorf("a held name changed with the driver's upgrade (-before +after): %v\n%s", err, cmp.Diff(before, after, anyOrder))
		}
		for _, id := range []string{"gpu-2", "gpu-3"} {
			upgraded, err := inject(t, dir, qualified(t, names, id))
			if err != nil || len(upgraded.Mounts) != 60 || !slices.Contains(upgraded.Process.Env, "DRIVER=2.0") || len(upgraded.Hooks.CreateContainer) != 7 {
				t.Errorf("%s beside a held definition: %+v, %v", id, upgraded, err)
			}
		}
		if e := readSpec(t, filepath.Join(dir, gpuFile)).ContainerEdits; len(e.Mounts) != 58 || len(e.Env) != 1 {
			t.Errorf("beside a held definition %d mounts and %d variables are shared, want 58 and 1", len(e.Mounts), len(e.Env))
		}
		s = open(t, dir)
	}
}
