package fpga

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Version is the backend's own version.
const Version = "0.1.0"

// The abilities of the backend. Watch, Reset and Sample are the engine's.
var (
	_ sdk.Backend    = (*Backend)(nil)
	_ sdk.Configurer = (*Backend)(nil)
	_ sdk.Preparer   = (*Backend)(nil)
	_ sdk.Releaser   = (*Backend)(nil)
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
	return &Backend{log: log, seams: s, Engine: engine.New(engine.Options{
		Log: log, Hardware: "FPGA", Unit: "card", Part: "region", Listen: s.uevents, Concerns: concerns,
	})}
}

// Describe implements [sdk.Backend].
func (b *Backend) Describe() sdk.Description {
	return sdk.Description{
		Name: "fpga", Vendor: "Intel, AMD and others", Version: Version,
		Classes: []string{classAF, classRegion, classCard}, SettingsSchema: settingsSchema, Needs: needs,
		ParametersSchema: parametersSchema, Attributes: declarations,
	}
}

// needs are those of all drivers together.
var needs = &sdk.Needs{
	ReadPaths:   []string{"/sys/**", "/proc/**"},
	OpenDevices: deviceNodes,
	DeviceNodes: deviceNodes,
	Env:         []string{"FPGA_*"},
}

// deviceNodes are Intel's, then AMD's.
var deviceNodes = []string{
	"/dev/dfl-*", "/dev/intel-fpga-*", "/dev/uio*", "/dev/fpga*",
	"/dev/dri/card*", "/dev/dri/renderD*", "/dev/xclmgmt*", "/dev/xfpga/*", "/dev/ama_transcoder*",
}

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, host sdk.HostPaths) error {
	cfg, err := configure(data, host)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.needs = cfg.needs()
	if err != nil {
		return err
	}
	if cfg.made, err = b.record(cfg.StateFile); err != nil {
		return sdk.FieldErrors{{Field: "stateFile", Message: err.Error()}}
	}
	b.cfg = cfg
	set := &engine.Settings{
		Vendor: vendor{b.log, cfg}, Interval: cfg.interval, Sysfs: host.Sysfs, Checks: b.checks(cfg),
	}
	if cfg.senses() {
		set.Sensing = cfg.sensors
	}
	for i, d := range b.seams.drivers(cfg) {
		set.Drivers = append(set.Drivers, source{driver: d, cfg: cfg, first: i == 0})
	}
	b.Engine.Configure(set)
	return nil
}

// record returns the record of functions that claims have, nil without a file. There is one of a file in a
// process. The caller holds mu.
func (b *Backend) record(file string) (*made.Record, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // documented
	}
	if b.cfg != nil && b.cfg.StateFile == file {
		return b.cfg.made, nil
	}
	return made.Open(file)
}

// Needs implements [sdk.Needer].
func (b *Backend) Needs() *sdk.Needs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.needs
}

// checks has the directory of bitstreams checked before a container asks for a file.
func (b *Backend) checks(cfg *config) []engine.Check {
	path := cfg.Bitstreams
	if path == "" {
		return nil
	}
	const then = "no container that asks for a file starts until then"
	return []engine.Check{{
		What: "opening the directory of bitstreams, " + path + ",",
		Hung: "its file system hangs; " + then,
		Run: func(context.Context) error {
			if err := b.seams.directory(path); err != nil {
				return fmt.Errorf("%w: make it on the node, and mount it into the agent at the same path; %s", err, then)
			}
			return nil
		},
	}}
}
