package mock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/manifests"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	healthy   = backendv1.HealthState_HEALTH_STATE_HEALTHY
	unhealthy = backendv1.HealthState_HEALTH_STATE_UNHEALTHY
)

// rig is a mock backend behind its service, with a scenario file.
type rig struct {
	*sdk.Server
	*sdktest.Watched
	t       *testing.T
	file    string
	crashed chan int
}

// newRig configures a backend and watches it. FILE in the settings stands for
// the scenario file, which is in dir.
func newRig(t *testing.T, dir, settings string) *rig {
	t.Helper()
	r := &rig{t: t, file: filepath.Join(dir, "scenario.yaml"), crashed: make(chan int, 1)}
	var err error
	if r.Server, err = sdk.NewServer(New(func(code int) { r.crashed <- code }), nil); err != nil {
		t.Fatal(err)
	}
	settings = r.configure(settings)
	r.Watched = sdktest.Watch(t, r.Server, 100*time.Millisecond, patience.Long)
	r.Check = manifests.Declared(t, manifests.Load(t, "manifest.yaml"), settings)
	return r
}

// configure returns the settings with the path of the file. Inventories are not checked from then on: one may still be that
// of earlier settings.
func (r *rig) configure(settings string) string {
	r.t.Helper()
	if r.Watched != nil {
		r.Check = nil
	}
	if settings == "" {
		settings = `{"count": 2, "scenarioFile": "FILE", "hooks": ["prepare", "release"]}`
	}
	settings = strings.ReplaceAll(settings, "FILE", r.file)
	res, err := r.Configure(r.t.Context(), &backendv1.ConfigureRequest{SettingsJson: []byte(settings)})
	if err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s) = %v, %v", settings, res, err)
	}
	return settings
}

// write replaces the scenario file at once.
func (r *rig) write(scenario string) {
	r.t.Helper()
	if err := writeFile(r.file, scenario); err != nil {
		r.t.Fatal(err)
	}
}

func writeFile(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// device finds a device of an inventory, or nil.
func device(inv *backendv1.Inventory, id string) *backendv1.Device {
	for _, d := range inv.GetDevices() {
		if d.GetId() == id {
			return d
		}
	}
	return nil
}

func healthOf(id string, want backendv1.HealthState) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool { return device(inv, id).GetHealth().GetState() == want }
}

func anyInventory(*backendv1.Inventory) bool { return true }
