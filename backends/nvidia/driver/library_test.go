package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// build makes a library of a version at a path.
func build(t *testing.T, path, version string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A new file, as a package manager makes it, not the old one overwritten.
	out, err := exec.Command("cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", `-DVERSION="`+version+`"`,
		"-o", path+".new", "testdata/nvml.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// The real loader: no library, no driver, a driver that comes late, goes and
// comes, and another library that only a new process can load. A process of its
// own, since a library stays loaded.
func TestRealLibrary(t *testing.T) {
	if os.Getenv("NVML_TEST_MODULE") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestRealLibrary$", "-test.v")
		child.Env = append(os.Environ(), "NVML_TEST_MODULE="+filepath.Join(t.TempDir(), "module"))
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "all steps were taken") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	root, module := t.TempDir(), os.Getenv("NVML_TEST_MODULE")
	path := filepath.Join(root, "usr/lib64/libnvidia-ml.so.1")
	d := driver.New(driver.Options{Root: root})
	err := d.Open(t.Context())
	wantError(t, err, driver.ErrNoLibrary)
	if !strings.Contains(err.Error(), root) {
		t.Errorf("the error does not say where: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, d.Open(t.Context()), driver.ErrNoLibrary)
	wantError(t, driver.New(driver.Options{Library: path + ".6"}).Open(t.Context()), driver.ErrNoLibrary)
	build(t, path, "570.1")
	for range 3 {
		wantError(t, d.Open(t.Context()), driver.ErrNoDriver)
	}
	for range 3 {
		if err := os.WriteFile(module, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := snapshot(t, d); s.DriverVersion != "570.1" || s.CUDAVersion != "" || len(s.GPUs) != 0 {
			t.Errorf("%+v", s)
		}
		if e := receive(t, listen(t, d)); e.Type != driver.EventBound || e.Data != 0x4100 {
			t.Errorf("%+v", e)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(module); err != nil {
			t.Fatal(err)
		}
		wantError(t, d.Open(t.Context()), driver.ErrNoDriver)
	}
	build(t, path, "580.2")
	wantError(t, d.Open(t.Context()), driver.ErrRestart)
	t.Log("all steps were taken")
}
