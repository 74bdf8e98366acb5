package status

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixed struct{ topologies }

func (fixed) Report() Report             { return Report{Node: "node-1"} }
func (fixed) Devices() []listing.Device  { return []listing.Device{{ID: "d"}} }
func (fixed) Healths(func(DeviceHealth)) {}
func (fixed) Alive()                     {}

func (fixed) Telemetry(context.Context) listing.Telemetry {
	return listing.Telemetry{Devices: []listing.Measured{{ID: "d", Values: []listing.Value{{Name: "power_watts", Value: 61.5}}}}}
}

// serveStatus runs a server in a directory of its own until the test ends.
func serveStatus(t *testing.T) (dir string) {
	t.Helper()
	return serveStatusOf(t, fixed{})
}

func serveStatusOf(t *testing.T, source Source) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, SocketName), nil, 0o600)) // a killed agent left it
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	start(t, NewServer(dir, source, slog.New(slog.DiscardHandler)).Run)
	client := NewClient(dir)
	patience.Until(t, "the server answers", func() bool {
		_, err := client.Report(t.Context())
		return err == nil
	})
	return dir
}

// Verifies that a client gets what the source says, over a socket that only its
// owner can open, and which replaces that of a killed agent.
func TestServer(t *testing.T) {
	dir := serveStatus(t)
	report, err := NewClient(dir).Report(t.Context())
	if err != nil || report.Node != "node-1" {
		t.Errorf("report %+v, %v", report, err)
	}
	devices, err := NewClient(dir).Devices(t.Context())
	if err != nil || len(devices) != 1 {
		t.Errorf("devices %+v, %v", devices, err)
	}
	telemetry, err := NewClient(dir).Telemetry(t.Context())
	if err != nil || len(telemetry.Devices) != 1 || telemetry.Devices[0].Values[0].Value != 61.5 {
		t.Errorf("telemetry %+v, %v", telemetry, err)
	}
	info, err := os.Stat(filepath.Join(dir, SocketName))
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket mode %v %v, want 0600", info.Mode(), err)
	}
}

// Verifies that a state directory too deep for a unix socket is refused with the
// limit, and that a missing agent is explained.
func TestExplained(t *testing.T) {
	deep := "/" + strings.Repeat("d", 120)
	if _, err := NewServer(deep, fixed{}, slog.New(slog.DiscardHandler)).listen(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a deep directory gives %v", err)
	}
	_, err := NewClient(t.TempDir()).Report(t.Context())
	if err == nil || !strings.Contains(err.Error(), "accelmux run") || errors.Is(err, context.Canceled) {
		t.Errorf("no agent gives %v", err)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
