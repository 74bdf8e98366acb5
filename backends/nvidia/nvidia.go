package nvidia

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Version is the backend's own version.
const Version = "0.1.0"

// Backend is the NVIDIA backend. Make it with [New].
type Backend struct {
	*engine.Engine
	log  *slog.Logger
	gpus *monitor

	mu  sync.Mutex
	cfg *config
}

// seams are functions that tests replace.
type seams struct {
	exit    func(code int)
	open    func(driver.Options) *driver.Driver
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)
}

// The optional interfaces of the backend. The engine implements Reset and Sample.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Resetter   = (*Backend)(nil)
	_ sdk.Sampler    = (*Backend)(nil)
)

// New returns the backend. It calls exit, which should end the process (os.Exit), when
// another libnvidia-ml was installed: only a new process can load that.
func New(exit func(code int)) *Backend {
	return newBackend(sdk.Logger(), seams{exit: exit, open: driver.New, uevents: uevent.Listen})
}

func newBackend(log *slog.Logger, s seams) *Backend {
	return &Backend{log: log, gpus: newMonitor(log, s), Engine: engine.New(engine.Options{
		Log: log, Hardware: "GPU", Unit: "GPU", Part: "device", Listen: s.uevents, Concerns: concerns, ExclusiveReset: true,
	})}
}

// Describe implements [sdk.Backend].
func (b *Backend) Describe() sdk.Description {
	return sdk.Description{
		Name: "nvidia", Vendor: "NVIDIA", Version: Version,
		Classes: []string{classGPU, classMIG}, SettingsSchema: settingsSchema, Needs: needs,
	}
}

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, host sdk.HostPaths) error {
	cfg, err := configure(data, host, os.Getenv, b.log)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg = cfg
	b.Engine.Configure(&engine.Settings{
		Vendor: vendor{cfg, b.gpus}, Drivers: []engine.Driver{source{b.gpus, cfg}}, Interval: cfg.rescan, Sysfs: host.Sysfs,
		Monitor: func(ctx context.Context) { b.gpus.run(ctx, b.Engine) },
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
	defer b.gpus.close()
	return b.Engine.Watch(ctx, out)
}
