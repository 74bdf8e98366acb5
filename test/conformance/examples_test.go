package conformance

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
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
		HostPaths: conformance.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: t.TempDir()},
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
