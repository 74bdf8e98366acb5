package nvidia

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Version is the backend's own version.
const Version = "0.1.0"

// Backend is the NVIDIA backend. Make it with [New].
type Backend struct {
	log  *slog.Logger
	exit func(code int)
	// open makes the driver; tests have another one.
	open func(driver.Options) *driver.Driver
	// uevents listens to the kernel; tests have another one.
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)

	// asks are what calls want of the loop; see request.go.
	asks sdk.Asks[*loop]
	// resetting is full while a reset has the driver closed: one at a time.
	resetting chan struct{}
	resetter  *reset.Runner
	// releases let go of drivers after the loop has ended.
	releases sync.WaitGroup

	mu  sync.Mutex
	cfg *config
}

// The abilities of the backend.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Resetter   = (*Backend)(nil)
	_ sdk.Sampler    = (*Backend)(nil)
)

// New returns the backend. It calls exit, which should end the process (os.Exit),
// when another libnvidia-ml was installed: only a new process can load that.
func New(exit func(code int)) *Backend { return newBackend(sdk.Logger(), exit, driver.New) }

func newBackend(log *slog.Logger, exit func(int), open func(driver.Options) *driver.Driver) *Backend {
	return &Backend{
		log: log, exit: exit, open: open, uevents: uevent.Listen,
		asks: make(sdk.Asks[*loop]), resetting: make(chan struct{}, 1), resetter: reset.NewRunner(),
	}
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
	return nil
}

func (b *Backend) config() *config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}

// Watch implements [sdk.Backend].
func (b *Backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	return newLoop(b, out).run(ctx)
}
