package device

import (
	"context"
	_ "embed" // manifest.yaml
	"encoding/json"
	"log/slog"
	"path"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/device/match"
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

// Backend is the backend for described devices. Make it with [New].
type Backend struct {
	*engine.Engine
	log *slog.Logger
	// finder has what tests replace; the host is that of the settings.
	finder match.Finder
	// monitor is [engine.Settings.Monitor].
	monitor func(ctx context.Context)
	// records is the directory of [records].
	records string
	// infoDir is [infoDir].
	infoDir string
	// write writes a file of the PCI bus.
	write func(path, text string) error

	infos infoFiles

	mu    sync.Mutex
	cfg   *config
	moved *movedFile
}

// New returns the backend.
func New() *Backend {
	b := newBackend(sdk.Logger(), match.Finder{}, uevent.Listen)
	b.monitor = b.watchNodes
	return b
}

func newBackend(log *slog.Logger, finder match.Finder, listen func(want func(uevent.Event) bool) (*uevent.Listener, error)) *Backend {
	b := &Backend{log: log, finder: finder, records: recordsDir, infoDir: infoDir, write: sysfs.Write, cfg: &config{}}
	b.Engine = engine.New(engine.Options{Log: log, Hardware: "device", Unit: "device", Part: "device", Listen: listen, Concerns: b.concerns})
	return b
}

func (b *Backend) config() *config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
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
	b.cfg = cfg
	b.mu.Unlock()
	b.infos.keep(cfg)
	b.Engine.Configure(b.engineSettings())
	return nil
}

// engineSettings returns the settings for the engine: each kind is a driver.
func (b *Backend) engineSettings() *engine.Settings {
	cfg := b.config()
	set := &engine.Settings{Vendor: vendor{}, Interval: cfg.scans(), Polling: cfg.interval, Sysfs: cfg.host.Sysfs, Monitor: b.monitor}
	finder := b.finder
	finder.Host = cfg.host
	moved := b.movedOf(cfg)
	for _, k := range cfg.kinds {
		set.Drivers = append(set.Drivers, source{kind: k, cfg: cfg, finder: finder, infos: &b.infos, infoDir: b.infoDir, moved: moved, watched: b.monitor != nil, open: sysfs.NewOpen(), interfaces: &interfaces{}})
	}
	return set
}

// concerns reports whether an event of the kernel may be about a device of a kind.
func (b *Backend) concerns(e uevent.Event) bool {
	if e.Subsystem == "pci" && e.Action != uevent.Change {
		return true // a driver came or went, or a function
	}
	for _, k := range b.config().kinds {
		m := k.Match
		switch {
		case m.Class != "" && e.Subsystem == m.Class, m.USB != nil && e.Subsystem == "usb", m.PCI != nil && e.Subsystem == "pci":
			return true
		}
		for _, pattern := range m.Paths {
			if includes(pattern, path.Join("/dev", e.Properties["DEVNAME"])) {
				return true
			}
			if below, ok := strings.CutPrefix(pattern, "/sys/"); ok && concernsPath(below, e) {
				return true
			}
		}
		for _, h := range k.Kind.Health {
			if _, ok := h.EventIn(e.Properties); ok {
				return true
			}
		}
	}
	return false
}

// concernsPath reports whether an event may be about a path below /sys: one of its bus or class,
// or one in its directory.
func concernsPath(pattern string, e uevent.Event) bool {
	parts := strings.Split(pattern, "/")
	if len(parts) > 1 && (parts[0] == "bus" || parts[0] == "class") {
		return parts[1] == e.Subsystem
	}
	ok, _ := path.Match("/"+pattern, e.DevPath)
	return ok
}
