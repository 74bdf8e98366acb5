package mock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a mock backend behind its service, with a scenario file.
type rig struct {
	*sdk.Server
	t       *testing.T
	backend *Backend
	file    string
	events  chan *backendv1.WatchResponse
	crashed chan int
	ended   chan error
	cancel  context.CancelFunc
}

// newRig configures a backend and watches it. FILE in the settings stands for
// the scenario file, which is in dir.
func newRig(t *testing.T, dir, settings string) *rig {
	t.Helper()
	return newRigWithHeartbeat(t, dir, settings, 100*time.Millisecond)
}

func newRigWithHeartbeat(t *testing.T, dir, settings string, heartbeat time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, file: filepath.Join(dir, "scenario.yaml"), events: make(chan *backendv1.WatchResponse),
		crashed: make(chan int, 1), ended: make(chan error, 1)}
	r.backend = New(func(code int) { r.crashed <- code })
	var err error
	if r.Server, err = sdk.NewServer(r.backend, nil); err != nil {
		t.Fatal(err)
	}
	r.configure(settings)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	request := &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(heartbeat)}
	go func() {
		r.ended <- r.Watch(request, sdktest.NewStream(ctx, r.events))
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended // says that it was cancelled
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) configure(settings string) {
	r.t.Helper()
	if settings == "" {
		settings = `{"count": 2, "scenarioFile": "FILE", "hooks": ["prepare", "release"]}`
	}
	settings = string(replace(settings, "FILE", r.file))
	res, err := r.Configure(r.t.Context(), &backendv1.ConfigureRequest{SettingsJson: []byte(settings)})
	if err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s) = %v, %v", settings, res, err)
	}
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

// inventory waits for an inventory that is as wanted, and returns it.
func (r *rig) inventory(what string, want func(*backendv1.Inventory) bool) *backendv1.Inventory {
	r.t.Helper()
	late := time.After(patience.Long)
	var last *backendv1.Inventory
	for {
		select {
		case e := <-r.events:
			if inv := e.GetInventory(); inv != nil {
				if last = inv; want(inv) {
					return inv
				}
			}
		case err := <-r.ended:
			r.ended <- err
			r.t.Fatalf("the stream ended while waiting for %s: %v", what, err)
		case <-late:
			r.t.Fatalf("waited %s for %s; last inventory: %v", patience.Long, what, last)
		}
	}
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

// fieldErrors are an error's, or none.
func fieldErrors(err error) sdk.FieldErrors {
	var errs sdk.FieldErrors
	if err != nil && !errors.As(err, &errs) {
		return sdk.FieldErrors{{Message: err.Error()}}
	}
	return errs
}
