package fpga

import (
	"context"
	_ "embed" // manifest.yaml
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

//go:embed manifest.yaml
var manifest string

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

// Identity implements [sdk.Backend].
func (*Backend) Identity() (name, version string) { return sdk.Identity(manifest) }

// Configure implements [sdk.Configurer].
func (b *Backend) Configure(_ context.Context, data json.RawMessage, host sdk.HostPaths) error {
	cfg, err := configure(data, host)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if cfg.made, err = b.records.Open(cfg.StateFile); err != nil {
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
