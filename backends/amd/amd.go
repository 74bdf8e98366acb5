package amd

import (
	"context"
	_ "embed" // manifest.yaml
	"encoding/json"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/smi"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
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
	return newBackend(sdk.Logger(), seams{
		read:     gpu.Read,
		names:    sync.OnceValue(func() *gpu.Names { return gpu.LoadNames("/") }),
		counters: ras.Read,
		events:   func(devfs string) smi.Source { return smi.Node{Path: filepath.Join(devfs, "kfd")} },
		exporter: func(socket string) lister { return exporter.Client{Socket: socket} },
		uevents:  uevent.Listen,
		write:    sysfs.Write,
	})
}

func newBackend(log *slog.Logger, s seams) *Backend {
	return &Backend{log: log, seams: s, Engine: engine.New(engine.Options{
		Log: log, Hardware: "GPU", Unit: "GPU", Part: "partition", Listen: s.uevents, Concerns: concerns,
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
	if cfg.made, err = b.records.Open(cfg.stateFile); err != nil {
		return sdk.FieldErrors{{Field: "partitions.stateFile", Message: err.Error()}}
	}
	if b.cfg != nil && b.cfg.cured.file == cfg.health.StateFile {
		cfg.cured = b.cfg.cured
	} else {
		cfg.cured = openCured(cfg.health.StateFile, host.Procfs)
	}
	b.cfg = cfg
	s := newSource(b, cfg)
	set := &engine.Settings{
		Vendor: vendor{b.log, cfg}, Drivers: []engine.Driver{s}, Interval: cfg.rescan,
		Sensing: cfg.interval, SensesRequired: true, Checks: s.checks(), Sysfs: host.Sysfs,
	}
	if cfg.health.Events {
		set.Monitor = s.monitor
	}
	b.Engine.Configure(set)
	return nil
}
