package amd

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"

	"sync"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/smi"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Version is the backend's own version.
const Version = "0.1.0"

// Backend is the AMD backend. Make it with [New].
type Backend struct {
	log      *slog.Logger
	seams    seams
	asks     sdk.Asks[*loop]
	resetter *reset.Runner
	// measuring are cards whose telemetry is being read.
	measuring guard

	mu  sync.Mutex
	cfg *config
}

// seams are where tests put something else.
type seams struct {
	read     func(root string, names *gpu.Names) (gpu.Inventory, error)
	names    func() *gpu.Names
	counters func(dir string, options ...ras.Option) counterReader
	events   func(devfs string) smi.Source
	exporter func(socket string) lister
	uevents  func(want func(uevent.Event) bool) (*uevent.Listener, error)
}

// counterReader is a [ras.Reader].
type counterReader interface{ Read() (ras.Counters, error) }

// lister is an [exporter.Client].
type lister interface {
	List(ctx context.Context) ([]exporter.GPU, error)
}

// The abilities of the backend.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Resetter   = (*Backend)(nil)
	_ sdk.Sampler    = (*Backend)(nil)
)

// New returns the backend.
func New() *Backend {
	return newBackend(sdk.Logger(), seams{
		read:     gpu.Read,
		names:    sync.OnceValue(func() *gpu.Names { return gpu.LoadNames("/") }),
		counters: func(dir string, options ...ras.Option) counterReader { return ras.NewReader(dir, options...) },
		events:   func(devfs string) smi.Source { return smi.Node{Path: filepath.Join(devfs, "kfd")} },
		exporter: func(socket string) lister { return exporter.Client{Socket: socket} },
		uevents:  uevent.Listen,
	})
}

func newBackend(log *slog.Logger, s seams) *Backend {
	return &Backend{log: log, seams: s, asks: make(sdk.Asks[*loop]), resetter: reset.NewRunner()}
}

// Describe implements [sdk.Backend].
func (b *Backend) Describe() sdk.Description {
	return sdk.Description{
		Name: "amd", Vendor: "AMD", Version: Version,
		Classes: []string{classGPU, classPartition}, SettingsSchema: settingsSchema, Needs: needs,
	}
}

var needs = &sdk.Needs{
	ReadPaths:   []string{"/sys/**", "/proc/**"},
	WritePaths:  []string{"/sys/bus/pci/devices/**"}, // reset
	OpenDevices: []string{"/dev/kfd", "/dev/dri/renderD*"},
	DeviceNodes: []string{"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*"},
}

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, host sdk.HostPaths) error {
	cfg, err := configure(data, host)
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
