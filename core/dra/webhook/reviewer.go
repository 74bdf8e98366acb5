package webhook

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
)

// A line about a request is logged every logInterval, and logBurst of them at once.
const (
	logInterval = 5 * time.Second
	logBurst    = 20
)

// Reviewer reviews objects for the API server. ServeHTTP is safe for concurrent use.
type Reviewer struct {
	log     *slog.Logger
	uploads uploads
	// places bounds the requests that are reviewed at once; another one waits.
	places chan struct{}
	wait   time.Duration // reviewWait, but in tests
	// logs bounds the lines about requests: any client of the webhook can cause them.
	logs     *rate.Limiter
	backends []backend
}

// backend is a backend of the configuration.
type backend struct {
	driver         string
	kinds          []config.OpaqueKind
	name, command  string
	manifestPinned string // its checksum; "" accepts any
	// description is that of the manifest; nil if that cannot be used.
	description *inventory.Description
}

// New returns a reviewer for the backends of all profiles, by the manifests of their programs in a directory. A manifest that
// cannot be used is logged: the parameters for its driver are not checked. A nil logger logs nothing.
func New(c *config.NodeConfig, backendDir string, log *slog.Logger) *Reviewer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Reviewer{log: log, uploads: uploads{max: maxUploads}, places: make(chan struct{}, reviews), wait: reviewWait, logs: rate.NewLimiter(rate.Every(logInterval), logBurst)}
	for _, profile := range c.Profiles {
		for _, b := range profile.Backends {
			next := backend{driver: b.DRA.Driver, kinds: b.DRA.Kinds, name: b.Name, command: b.Command, manifestPinned: b.ManifestChecksum}
			if !slices.ContainsFunc(r.backends, func(have backend) bool { return reflect.DeepEqual(have, next) }) {
				r.backends = append(r.backends, next)
			}
		}
	}
	for i := range r.backends {
		r.backends[i].read(backendDir, log)
	}
	return r
}

// read reads the description of a backend.
func (b *backend) read(dir string, log *slog.Logger) {
	m, err := manifest.Load(plug.ManifestFile(dir, b.command))
	if err == nil && b.manifestPinned != "" && b.manifestPinned != m.Sum {
		err = fmt.Errorf("it has the checksum %s, but the configuration pins %s: install the pinned manifest, or change manifestChecksum of this backend", m.Sum, b.manifestPinned)
	}
	if err != nil {
		log.Warn("the parameters for a driver are not checked: the manifest of its backend cannot be used", "backend", b.name, "driver", b.driver, "error", err)
		return
	}
	b.description = &m.Description
	log.Info("the parameters for a driver are checked", "backend", b.name, "driver", b.driver, "version", m.Description.Version, "parameters", len(m.Description.Parameters))
}
