package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/manifests"
)

// newBackend returns a backend on a tree with two cameras.
func newBackend(t *testing.T) (b *backend, root string) {
	t.Helper()
	root = t.TempDir()
	if out, err := exec.Command("../tree.sh", root).CombinedOutput(); err != nil {
		t.Fatalf("tree.sh: %v\n%s", err, out)
	}
	b = &backend{}
	if err := b.Configure(t.Context(), []byte("{}"), sdk.HostPaths{Sysfs: filepath.Join(root, "sys"), Procfs: filepath.Join(root, "proc")}); err != nil {
		t.Fatal(err)
	}
	return b, root
}

func list(t *testing.T, b *backend) []*sdk.Device {
	t.Helper()
	devices, err := b.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// A bus that cannot be listed is an error, by which no camera is gone; a kernel without USB has none.
func TestUnreadableBus(t *testing.T) {
	b, sysfs := &backend{}, t.TempDir()
	b.host.Store(sdk.HostPaths{Sysfs: sysfs})
	if got := list(t, b); len(got) > 0 {
		t.Errorf("without USB there are %v", got)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(sysfs, "bus/usb"), 0o700), os.WriteFile(filepath.Join(sysfs, "bus/usb/devices"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := b.list(t.Context()); len(got) > 0 || err == nil {
		t.Errorf("%v, %v, want an error", got, err)
	}
}

// webcam is the ID of the camera at port 2.
const webcam = "046d-0825-8A2B3C4D"

// attribute returns the file of an attribute of the webcam.
func attribute(root, name string) string { return filepath.Join(root, "sys/bus/usb/devices/1-2", name) }

func TestList(t *testing.T) {
	b, _ := newBackend(t)
	want := []*sdk.Device{
		{
			Id: "0000:00:14.0-3", Class: "camera", Health: sdk.Recovered(), Edits: sdk.Nodes("/dev/video2"),
			Hooks:      []sdk.Hook{sdk.HookPrepare, sdk.HookRelease},
			Attributes: map[string]*sdk.Attribute{"model": sdk.String("USB 2.0 Camera")},
		},
		{
			Id: webcam, Class: "camera", Health: sdk.Recovered(), Edits: sdk.Nodes("/dev/video0", "/dev/video1"),
			Hooks:      []sdk.Hook{sdk.HookPrepare, sdk.HookRelease},
			Attributes: map[string]*sdk.Attribute{"model": sdk.String("HD Webcam")},
		},
	}
	got := list(t, b)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	manifests.Declared(t, manifests.Load(t, "manifest.yaml"), "{}")(got)
}

// Verifies that the program answers with the name and version of its manifest.
func TestIdentity(t *testing.T) {
	name, version := (&backend{}).Identity()
	if d := manifests.Load(t, "manifest.yaml").Description; name != d.Name || version != d.Version {
		t.Errorf("%s %s, and %s %s in the manifest", name, version, d.Name, d.Version)
	}
}

func TestReset(t *testing.T) {
	b, root := newBackend(t)
	fd := filepath.Join(root, "proc/5000100/fd") // its number is above the kernel's maximum
	if err := os.MkdirAll(fd, 0o755); err != nil {
		t.Fatal(err)
	}
	status := attribute(root, "power/runtime_status")
	if err := os.WriteFile(status, []byte("error\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := list(t, b)[1].GetHealth(); h.GetCode() != "power-error" || h.GetRecovery() != sdk.RecoveryReset {
		t.Fatalf("health = %v", h)
	}
	reset := func() *sdk.ResetResult {
		results, err := b.Reset(t.Context(), []string{webcam})
		if err != nil || len(results) != 1 {
			t.Fatalf("Reset = %v, %v", results, err)
		}
		return results[0]
	}
	if r := reset(); r.GetRecovered() || !strings.Contains(r.GetMessage(), "still") {
		t.Errorf("a reset that did not help: %v", r)
	}
	if err := os.WriteFile(status, []byte("active\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := reset(); !r.GetRecovered() {
		t.Errorf("a reset that helped: %v", r)
	}
}

// Verifies that Release does not change a camera that another container has, and that a camera
// that was unplugged is released.
func TestPrepare(t *testing.T) {
	b, root := newBackend(t)
	wantPower := func(want string) {
		t.Helper()
		got, err := os.ReadFile(attribute(root, "power/control"))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("power/control = %q, %v; want %s", got, err, want)
		}
	}
	prepare := func() error {
		_, err := b.Prepare(t.Context(), sdk.Preparation{Devices: []sdk.HeldDevice{{ID: webcam}}})
		return err
	}
	release := func(d sdk.HeldDevice) {
		t.Helper()
		if failed, err := b.Release(t.Context(), sdk.Holder{}, []sdk.HeldDevice{d}); len(failed) > 0 || err != nil {
			t.Errorf("Release(%v) = %v, %v", d, failed, err)
		}
	}
	for range 2 {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		wantPower("on")
	}
	release(sdk.HeldDevice{ID: webcam, Shared: true})
	wantPower("on")
	release(sdk.HeldDevice{ID: webcam})
	wantPower("auto")
	if err := os.RemoveAll(attribute(root, "power")); err != nil {
		t.Fatal(err)
	}
	release(sdk.HeldDevice{ID: webcam})
	release(sdk.HeldDevice{ID: "never-seen"})
	if err := prepare(); err == nil {
		t.Error("a camera that is gone was prepared")
	}
}

// Verifies that the first backend is complete without the steps that follow.
func TestMainAlone(t *testing.T) {
	if out, err := exec.Command("go", "vet", "main.go").CombinedOutput(); err != nil {
		t.Errorf("main.go alone: %v\n%s", err, out)
	}
}

// Verifies that IDs are those of the hardware when the kernel has numbered the buses in another order, and that
// cameras with one serial number have IDs of their own.
func TestIDs(t *testing.T) {
	b, root := newBackend(t)
	devices := filepath.Join(root, "sys/bus/usb/devices")
	run := func(script string) {
		t.Helper()
		if out, err := exec.Command("sh", "-euc", "cd "+devices+"; "+script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	ids := func() (all []string) {
		for _, d := range list(t, b) {
			all = append(all, d.GetId())
		}
		slices.Sort(all)
		return all
	}
	before := ids()
	run("pci=../../../devices/pci0000:00/0000:00:14.0; mv $pci/usb1 $pci/usb7; for p in 2 3; do rm 1-$p; mv $pci/usb7/1-$p $pci/usb7/7-$p; ln -s $pci/usb7/7-$p 7-$p; done")
	if after := ids(); !slices.Equal(before, after) {
		t.Errorf("%v, and on another bus number %v", before, after)
	}
	run("cp 7-2/serial 7-3/serial")
	if got, want := ids(), []string{"0000:00:14.0-2", "0000:00:14.0-3"}; !slices.Equal(got, want) {
		t.Errorf("with one serial number: %v, want %v", got, want)
	}
}
