package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

var (
	keyA = inventory.Key{Backend: "mock", ID: "a"}
	keyB = inventory.Key{Backend: "mock", ID: "b"}
)

// rig is a Lifecycle with a real book, a real CDI directory and a backend in the process.
type rig struct {
	l       *Lifecycle
	book    *holders.Book
	store   *cdi.Store
	backend *backend
	round   *round.Round
	// changed counts calls of Options.Changed.
	changed int
	// full: no claim can be stored.
	full     bool
	bookPath string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{backend: &backend{}, bookPath: filepath.Join(t.TempDir(), "usage")}
	var err error
	if r.store, err = cdi.Open(cdi.Options{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	return r
}

// open makes the book from its file, and a Lifecycle with it.
func (r *rig) open(t *testing.T) {
	t.Helper()
	var err error
	if r.book, err = holders.Open(holders.Options{
		Path: r.bookPath, BootID: "boot", Kubelet: podresources.New(podresources.Options{Socket: "/nowhere"}),
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
		Disk: checkpoint.Writer{Before: func(_ checkpoint.Op, path string) error {
			if r.full && strings.Contains(path, "claims") {
				return errors.New("disk full")
			}
			return nil
		}},
		ResetAfterUse: func(key inventory.Key) bool { return r.round.ResetsAfterUse(key) },
	}); err != nil {
		t.Fatal(err)
	}
	r.l = New(Options{
		Book: r.book, Backends: r.backend, Definitions: r.store, Health: noHealth{},
		Round:   func() *round.Round { return r.round },
		Changed: func() { r.changed++ }, Released: func(inventory.Key, error) {}, Reset: func(string, error) {},
	})
}

// reopen is a restart of the agent.
func (r *rig) reopen(t *testing.T) {
	t.Helper()
	if err := r.book.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(t)
}

// take gives a whole device to a new holder.
func (r *rig) take(t *testing.T, device *inventory.Device) {
	t.Helper()
	if _, err := r.l.Take(t.Context(), Request{Resource: gpu, Units: []Unit{{ID: device.ID, Device: device}}}); err != nil {
		t.Fatal(err)
	}
}

type noHealth struct{}

func (noHealth) ResetDone(inventory.Key, bool, string) {}

func (noHealth) Excuse(inventory.Key, time.Time) {}

// backend answers calls at once, but for a Prepare that is held up.
type backend struct {
	// hold, if set, gets the function that ends a Prepare; the caller gets the error of a
	// call that took too long.
	hold chan func()
	// resets are the devices of each Reset; recovers is its result for all of them.
	resets   [][]string
	recovers atomic.Bool
	// searched are the nodes of each search for processes, users and usersErr its result.
	searched [][]inventory.DeviceNode
	users    openfiles.Processes
	usersErr error
	// unreleased: Release fails.
	unreleased atomic.Bool
}

func (b *backend) Users(_ context.Context, _ string, nodes []inventory.DeviceNode) (openfiles.Processes, error) {
	b.searched = append(b.searched, nodes)
	return b.users, b.usersErr
}

func (b *backend) Prepare(_ context.Context, _ string, _ *backendv1.PrepareRequest, _ time.Duration, ended func()) (*backendv1.PrepareResponse, error) {
	if b.hold != nil {
		b.hold <- ended
		return nil, context.DeadlineExceeded
	}
	ended()
	return &backendv1.PrepareResponse{}, nil
}

func (b *backend) Release(_ context.Context, _ string, r *backendv1.ReleaseRequest, ended func()) (*backendv1.ReleaseResponse, error) {
	ended()
	response := &backendv1.ReleaseResponse{}
	for _, d := range r.GetDevices() {
		response.Results = append(response.Results, &backendv1.ReleaseResult{DeviceId: d.GetId(), Released: !b.unreleased.Load()})
	}
	return response, nil
}

func (b *backend) Reset(_ context.Context, _ string, ids []string, ended func()) (*backendv1.ResetResponse, error) {
	ended()
	b.resets = append(b.resets, ids)
	response := &backendv1.ResetResponse{}
	for _, id := range ids {
		response.Results = append(response.Results, &backendv1.ResetResult{DeviceId: id, Recovered: b.recovers.Load(), Message: "scripted"})
	}
	return response, nil
}

// roundOf is a round of devices of one backend that no resource has.
func roundOf(devices ...*inventory.Device) *round.Round {
	return roundWith(&inventory.Snapshot{Backends: []*inventory.Backend{{Name: keyA.Backend, Devices: devices}}}, &health.View{})
}

// roundWith is a round of a profile with the backend and one resource.
func roundWith(all *inventory.Snapshot, judged *health.View) *round.Round {
	profile := &config.Profile{Backends: []config.Backend{{Name: keyA.Backend, Recovery: config.RecoveryPolicy{Reset: config.ResetAuto}}}}
	table := &resource.Table{Resources: []*resource.Resource{{Resource: config.Resource{Name: gpu, Injection: config.InjectCDI}}}}
	return round.New(round.Round{Profile: profile, Snapshot: all, Health: judged, Table: table})
}

func newJudge(tb testing.TB) *health.Judge {
	tb.Helper()
	judge, err := health.Open(health.Options{Path: tb.TempDir() + "/health", BootID: "boot"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := judge.Close(); err != nil {
			tb.Error(err)
		}
	})
	return judge
}

// many is a snapshot of so many healthy devices.
func many(devices int) *inventory.Snapshot {
	backend := &inventory.Backend{Name: keyA.Backend, Generation: 1, Devices: make([]*inventory.Device, devices)}
	for i := range backend.Devices {
		backend.Devices[i] = &inventory.Device{
			Key: inventory.Key{Backend: keyA.Backend, ID: fmt.Sprintf("mock-%d", i)}, Class: "gpu", Health: inventory.Health{State: inventory.StateHealthy},
			Edits: inventory.Edits{Env: inventory.Named(map[string]string{"MOCK": "1"})},
		}
	}
	return &inventory.Snapshot{Generation: 1, Backends: []*inventory.Backend{backend}}
}

// flapped is the snapshot with another health of one device.
func flapped(before *inventory.Snapshot, place int, fails bool) *inventory.Snapshot {
	backend := *before.Backends[0]
	backend.Generation++
	backend.Devices = append([]*inventory.Device(nil), backend.Devices...)
	d := *backend.Devices[place]
	d.Health = inventory.Health{State: inventory.StateHealthy, Recovered: true}
	if fails {
		d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoverySelf}
	}
	backend.Devices[place] = &d
	return &inventory.Snapshot{Generation: before.Generation + 1, Backends: []*inventory.Backend{&backend}}
}
