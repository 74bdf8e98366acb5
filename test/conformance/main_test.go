package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
	"github.com/accelmux/accelmux/test/programs"
)

var built = programs.Shared{Args: []string{
	"../../cmd/accelmux", "../../cmd/accelmux-backend-amd", "../../cmd/accelmux-backend-device", "../../cmd/accelmux-backend-fpga", "../../cmd/accelmux-backend-mock",
	"../../cmd/accelmux-backend-nvidia", "../../backends/examples/camera", "../hostile/hostilebackend",
}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := built.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patient is for programs that pass, also on a machine that is slow, where a scan takes seconds: only the pause after a
// cancelled call is waited for, and is short.
var patient = conformance.Timing{
	Start: time.Minute, Configure: time.Minute, Inventory: time.Minute, Silence: time.Minute,
	Terminate: 20 * time.Second, Orphan: 20 * time.Second, Abandon: time.Second,
}

// run checks a program of ours, which must pass all rules but those that are not applicable
// to it.
func run(t *testing.T, options conformance.Options, notApplicable ...string) {
	t.Helper()
	options.Program = filepath.Join(built.Dir(t), options.Program)
	options.Timing = patient
	if slices.Contains(notApplicable, "heartbeats-from-loop") {
		options.Timing.Hang = time.Second // all of it is waited for
	}
	report, err := conformance.Check(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range report.Sandbox.Unmatched {
		if strings.Contains(path, "accelmux-check-") {
			t.Errorf("the report has the path %s of a start without hardware", path)
		}
	}
	for _, r := range report.Results {
		want := conformance.Pass
		if slices.Contains(notApplicable, r.ID) {
			want = conformance.NotApplicable
		}
		if r.Outcome != want {
			t.Errorf("%s is %q, want %q: %s", r.ID, r.Outcome, want, r.Why)
		}
	}
}

func settings(t *testing.T, value map[string]any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
