package nvidia

import (
	"context"
	_ "embed" // manifest.yaml
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

//go:embed manifest.yaml
var manifest string

// Backend is the NVIDIA backend. Make it with [New].
type Backend struct {
	*engine.Engine
	log  *slog.Logger
	exit func(code int)
	conn *connection
	mps  *mps.Client
	// resetter runs resets and what else nvidia-smi does, one at a time.
	resetter *reset.Runner
	// forgotten: all GPUs were read, and MIG devices of the record that did not outlive the last boot were
	// removed from it.
	forgotten atomic.Bool

	mu      sync.Mutex
	cfg     *config
	records made.Files
}

// The optional interfaces of the backend. The engine implements Reset and Sample.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Releaser   = (*Backend)(nil)
	_ sdk.Resetter   = (*Backend)(nil)
	_ sdk.Sampler    = (*Backend)(nil)
)

// New returns the backend. It calls exit, which should end the process (os.Exit), when
// another libnvidia-ml was installed: only a new process can load that.
func New(exit func(code int)) *Backend {
	return newBackend(sdk.Logger(), seams{exit: exit, open: driver.New, uevents: uevent.Listen})
}

func newBackend(log *slog.Logger, s seams) *Backend {
	return &Backend{
		log: log, exit: s.exit, conn: newConnection(log, s.open), mps: mps.NewClient(log, mps.DefaultTiming()), resetter: reset.NewRunner(),
		Engine: engine.New(engine.Options{
			Log: log, Hardware: "GPU", Unit: "GPU", Part: "device", Listen: s.uevents, Concerns: concerns, ExclusiveReset: true,
		}),
	}
}

// seams are functions that tests replace.
type seams struct {
	exit    func(code int)
	open    func(driver.Options) *driver.Driver
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)
}

// Identity implements [sdk.Backend].
func (*Backend) Identity() (name, version string) { return sdk.Identity(manifest) }

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, host sdk.HostPaths) error {
	cfg, err := configure(data, host, os.Getenv, b.log)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if cfg.made, err = b.records.Open(cfg.stateFile); err != nil {
		return sdk.FieldErrors{{Field: "mig.stateFile", Message: err.Error()}}
	}
	if s := cfg.slicing; s != nil {
		if s.record, err = b.records.Open(s.StateFile); err != nil {
			return sdk.FieldErrors{{Field: "timeSlicing.stateFile", Message: err.Error()}}
		}
	}
	b.cfg = cfg
	s := source{b, cfg}
	b.Engine.Configure(&engine.Settings{
		Vendor: vendor{cfg, b}, Drivers: []engine.Driver{s}, Interval: cfg.rescan, Sysfs: host.Sysfs, Monitor: s.monitor,
	})
	return nil
}

func (b *Backend) config() *config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}

// Watch implements [sdk.Backend].
func (b *Backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	defer b.mps.Close()
	defer b.conn.end()
	return b.Engine.Watch(ctx, out)
}
