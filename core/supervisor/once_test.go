package supervisor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies that Describe returns the description of a program without configuring it, and the
// reason for the operator if there is none; and that no process and no file is left.
func TestDescribe(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	run := tempDir(t)
	for role, want := range map[string]string{
		"normal":       "",
		"exit":         "it exited with status 3",
		"describe-bad": `it describes the device class "GPU"`,
		"garbage":      `it printed "hello from a vendor library" instead of the handshake`,
	} {
		spec := spec(role)
		got, err := supervisor.Describe(t.Context(), supervisor.Options{BackendDir: r.backendDir, RunDir: run, Timing: fast()}, spec)
		switch {
		case want == "" && (err != nil || got.Name == "" || len(got.Classes) == 0 || !strings.Contains(got.SettingsSchema, "count")):
			t.Errorf("%s: %+v, %v", role, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", role, err, want)
		}
	}
	spec := spec("normal")
	spec.Command = "accelmux-backend-missing"
	_, err := supervisor.Describe(t.Context(), supervisor.Options{BackendDir: r.backendDir, RunDir: run, Timing: fast()}, spec)
	if want := "the program " + filepath.Join(r.backendDir, spec.Command) + " does not exist"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a missing program: %v, want %q", err, want)
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left in the run directory: %v, %v", left, err)
	}
}

// Verifies that Describe ends a program that never completes the handshake as soon as the context
// ends.
func TestDescribeCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := supervisor.Describe(ctx, supervisor.Options{BackendDir: r.backendDir, Timing: fast()}, spec("silent"))
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}
