package amd

import (
	"context"
	"log/slog"
	"sync"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/smi"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Backend is the AMD backend. Make it with [New].
type Backend struct {
	*engine.Engine
	log   *slog.Logger
	seams seams

	mu      sync.Mutex
	cfg     *config
	records made.Files
}

// seams are what tests replace.
type seams struct {
	read  func(root string, names *gpu.Names) (gpu.Inventory, error)
	names func() *gpu.Names
	// counters reads the error counters of a card, those of its XGMI links if links is true.
	counters func(dir string, links bool) (ras.Counters, error)
	events   func(devfs string) smi.Source
	exporter func(socket string) lister
	uevents  func(want func(uevent.Event) bool) (*uevent.Listener, error)
	// write writes a file of sysfs.
	write func(path, text string) error
}

// lister is an [exporter.Client].
type lister interface {
	List(ctx context.Context) ([]exporter.GPU, error)
}

func (b *Backend) config() *config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}
