package cdi_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"go.uber.org/goleak"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const backend = "mock"

func key(id string) inventory.Key { return inventory.Key{Backend: backend, ID: id} }

// device returns a device whose only edit is a variable with this value.
func device(id, value string) *inventory.Device {
	return &inventory.Device{Key: key(id), Class: "gpu", Edits: inventory.Edits{Env: inventory.Named(map[string]string{"VALUE": value})}}
}

func open(t testing.TB, dir string) *cdi.Store {
	t.Helper()
	return openWith(t, cdi.Options{Dir: dir})
}

func openWith(t testing.TB, opts cdi.Options) *cdi.Store {
	t.Helper()
	killed(t, opts.Dir)
	s, err := cdi.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Own([]string{backend}); err != nil {
		t.Fatal(err)
	}
	return s
}

// killed releases the locks of stores in the directory, as the end of their process does.
func killed(t interface{ Fatal(...any) }, dir string) {
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		if err := os.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// holding returns the held function for the devices with these IDs.
func holding(ids ...string) func(inventory.Key) bool {
	return func(k inventory.Key) bool { return slices.Contains(ids, k.ID) }
}

func nobody(inventory.Key) bool   { return false }
func everyone(inventory.Key) bool { return true }

func qualified(t testing.TB, names *cdi.Names, id string) string {
	t.Helper()
	name, err := names.Qualified(key(id))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// inject does what a container runtime does with the names: it loads the directory
// with the CDI library and edits an OCI spec.
func inject(t testing.TB, dir string, names ...string) (*oci.Spec, error) {
	t.Helper()
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(dir), cdilib.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	for file, errs := range cache.GetErrors() {
		t.Errorf("the CDI library complains about %s: %v", file, errs)
	}
	spec := &oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{}}
	_, err = cache.InjectDevices(spec, names...)
	return spec, err
}

// env returns the environment that a container with these names gets.
func env(t testing.TB, dir string, names ...string) string {
	t.Helper()
	spec, err := inject(t, dir, names...)
	if err != nil {
		t.Errorf("inject: %v", err)
		return ""
	}
	return strings.Join(spec.Process.Env, " ")
}

func gone(t testing.TB, dir, name string) {
	t.Helper()
	if _, err := inject(t, dir, name); err == nil {
		t.Errorf("%s still resolves", name)
	}
}

// files returns the names of all files but the locks.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func readSpec(t testing.TB, path string) specs.Spec {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

var errDisk = errors.New("no space left on device")
