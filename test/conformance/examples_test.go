package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/programs"
)

// cameras are the options for an example backend, on a node with two cameras of which one
// is unplugged.
func cameras(t *testing.T, program string) conformance.Options {
	t.Helper()
	dir := t.TempDir()
	programs.Script(t, "../../backends/examples/tree.sh", dir)
	return conformance.Options{
		Program: program, Exercise: true, HardwareChange: "rm " + filepath.Join(dir, "sys/bus/usb/devices/1-3"),
		HostPaths: conformance.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: noProcesses(t)},
	}
}

// Verifies that the example backend keeps the contract.
func TestCamera(t *testing.T) {
	t.Parallel()
	options := cameras(t, "camera")
	options.Settings = settings(t, map[string]any{"interval": "1s"})
	run(t, options)
}

// Verifies that the example backend in Python keeps the contract.
func TestCameraInPython(t *testing.T) {
	t.Parallel()
	const program = "accelmux-backend-camera-python"
	programs.BuildPython(t, filepath.Join(built.Dir(t), program))
	run(t, cameras(t, program), "prepare-idempotent", "prepare-edits", "prepare-cancelled", "release-results", "release-unknown",
		"reset-results", "sample-interval", "sample-metrics", "sample-stopped")
}

// Verifies that a Reset which does not recover is visible, and that one which the sandbox prevents fails a rule.
func TestPreventedReset(t *testing.T) {
	t.Parallel()
	if _, err := ll.LandlockGetABIVersion(); err != nil {
		host.Lacks(t, "files are restricted by Landlock: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"camera", "camera.yaml", "camera.settings.schema.json"} {
		data, err := os.ReadFile(filepath.Join(built.Dir(t), name))
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte("write: [/sys/devices/**]"), []byte("list: [/sys/devices/**]"), 1)
		data = bytes.Replace(data, []byte("read: [/sys/bus/usb/**]"), []byte("read: [/sys/bus/usb/**, /sys/devices/**]"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	options := cameras(t, filepath.Join(dir, "camera"))
	options.Settings = settings(t, map[string]any{"interval": "1s"})
	options.Timing = patient
	report, err := conformance.Check(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]conformance.Result{
		"reset-results":     {Outcome: conformance.Pass, Why: "it did not recover 046d-0825-8A2B3C4D: "},
		"manifest-suffices": {Outcome: conformance.Fail, Why: "Reset of the device 046d-0825-8A2B3C4D fails: "},
	} {
		i := slices.IndexFunc(report.Results, func(r conformance.Result) bool { return r.ID == rule })
		if got := report.Results[i]; got.Outcome != want.Outcome || !strings.Contains(got.Why, want.Why) || !strings.Contains(got.Why, "permission denied") {
			t.Errorf("%s is %q: %s; want %q: %s", rule, got.Outcome, got.Why, want.Outcome, want.Why)
		}
	}
}
