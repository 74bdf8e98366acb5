package fpga

import (
	"log/slog"
	"sync"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Backend is the FPGA backend. Make it with [New].
type Backend struct {
	*engine.Engine
	log   *slog.Logger
	seams seams

	mu      sync.Mutex
	cfg     *config
	records made.Files
}

func (b *Backend) config() *config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}

// seams are what tests replace.
type seams struct {
	// drivers returns those that settings name, in the order of their precedence.
	drivers func(*config) []driver.Driver
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)
	// directory returns why no bitstream can be found in a directory; nil if some can.
	directory func(path string) error
}
