package mock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
)

// newSlowRig is a rig whose loop has a pace of half a minute, and which waits for less: what it
// sees is an event, or read because the directory cannot be watched.
func newSlowRig(t *testing.T, file string) *rig {
	t.Helper()
	r := &rig{t: t, file: file}
	var err error
	if r.Server, err = sdk.NewServer(New(func(int) { t.Error("it crashed") }), nil); err != nil {
		t.Fatal(err)
	}
	r.configure("")
	r.Watched = sdktest.Watch(t, r.Server, time.Minute, 20*time.Second)
	r.Until("the start", anyInventory)
	return r
}

// Verifies that a change of the scenario is seen by the kernel's event, in whatever way the file
// changes, and that the next change is seen, too.
func TestScenarioChanges(t *testing.T) {
	const fault = "devices: {mock-0: {fault: {}}}"
	for name, prepare := range map[string]func(t *testing.T, dir string) (write func(text string) error){
		"renamed": func(_ *testing.T, dir string) func(string) error {
			return func(text string) error { return writeFile(filepath.Join(dir, "scenario.yaml"), text) }
		},
		"ConfigMap": func(t *testing.T, dir string) func(string) error {
			must(t, os.Symlink("..data/scenario.yaml", filepath.Join(dir, "scenario.yaml")))
			return func(text string) error { // as kubelet's AtomicWriter
				version, err := os.MkdirTemp(dir, "..2026_")
				must(t, err)
				must(t, os.WriteFile(filepath.Join(version, "scenario.yaml"), []byte(text), 0o600))
				must(t, os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")))
				return os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := prepare(t, dir)
			r := newSlowRig(t, filepath.Join(dir, "scenario.yaml"))
			for range 2 {
				must(t, write(fault))
				r.Until("the fault", healthOf("mock-0", unhealthy))
				must(t, write(""))
				r.Until("its end", healthOf("mock-0", healthy))
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
