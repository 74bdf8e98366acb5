package fpga

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Version is the backend's own version.
const Version = "0.1.0"

// Backend is the FPGA backend. Make it with [New].
type Backend struct {
	log   *slog.Logger
	seams seams
	asks  sdk.Asks[*loop]
	works works
	// measuring are cards whose sensors are being read for telemetry.
	measuring works

	mu  sync.Mutex
	cfg *config
}

// seams are where tests put something else.
type seams struct {
	// drivers are those that settings name, in the order in which they are asked.
	drivers func(*config) []driver.Driver
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)
	// directory is why no bitstream could be found in one; nil if some could.
	directory func(path string) error
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
	return newBackend(sdk.Logger(), seams{drivers: opened{}.drivers, uevents: uevent.Listen})
}

func newBackend(log *slog.Logger, s seams) *Backend {
	if s.directory == nil {
		s.directory = bitstream.CheckDirectory
	}
	return &Backend{log: log, seams: s, asks: make(sdk.Asks[*loop])}
}

// Describe implements [sdk.Backend].
func (b *Backend) Describe() sdk.Description {
	return sdk.Description{
		Name: "fpga", Vendor: "Intel, AMD and others", Version: Version,
		Classes: []string{classAF, classRegion, classCard}, SettingsSchema: settingsSchema, Needs: needs,
		ParametersSchema: parametersSchema,
	}
}

// needs are those of all drivers together.
var needs = &sdk.Needs{
	ReadPaths:   []string{"/sys/**", "/proc/**"},
	WritePaths:  []string{"/sys/class/fpga_region/**", "/sys/class/fpga_manager/**", "/sys/bus/pci/devices/**", "/sys/kernel/config/device-tree/overlays/**"},
	OpenDevices: deviceNodes,
	DeviceNodes: deviceNodes,
	Env:         []string{"FPGA_*"},
}

// deviceNodes are Intel's, then AMD's.
var deviceNodes = []string{
	"/dev/dfl-*", "/dev/intel-fpga-*", "/dev/uio*", "/dev/fpga*",
	"/dev/dri/card*", "/dev/dri/renderD*", "/dev/xclmgmt*", "/dev/xfpga/*",
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
