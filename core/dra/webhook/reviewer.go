package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// A line about a request is logged every logInterval, and logBurst of them at once.
const (
	logInterval = 5 * time.Second
	logBurst    = 20
)

// Reviewer reviews objects for the API server. ServeHTTP is safe for concurrent use, also with
// Describe.
type Reviewer struct {
	options supervisor.Options
	log     *slog.Logger
	uploads uploads
	// places bounds the requests that are reviewed at once; another one waits.
	places chan struct{}
	wait   time.Duration // reviewWait, but in tests
	// logs bounds the lines about requests: any client of the webhook can cause them.
	logs *rate.Limiter

	mu       sync.Mutex
	backends []backend
}

// backend is a backend of the configuration.
type backend struct {
	driver string
	kinds  []config.OpaqueKind
	spec   supervisor.Spec
	// description is that of the program; nil until Describe succeeded.
	description *inventory.Description
}

// New returns a reviewer for the backends of all profiles. Describe must follow. BackendDir, RunDir,
// Log and Timing of the options are used, as by [supervisor.Describe].
func New(c *config.NodeConfig, o supervisor.Options) *Reviewer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reviewer{
		options: o, log: o.Log, uploads: uploads{max: maxUploads}, places: make(chan struct{}, reviews), wait: reviewWait, logs: rate.NewLimiter(rate.Every(logInterval), logBurst),
	}
	for _, profile := range c.Profiles {
		for _, b := range profile.Backends {
			next := backend{driver: b.DRA.Driver, kinds: b.DRA.Kinds, spec: supervisor.Spec{Name: b.Name, Command: b.Command, Checksum: b.Checksum, Env: b.Env, Sandbox: b.Policy()}}
			if !slices.ContainsFunc(r.backends, func(have backend) bool { return reflect.DeepEqual(have, next) }) {
				r.backends = append(r.backends, next)
			}
		}
	}
	return r
}

// Describe starts the programs that were not described yet, all at the same time and each for a
// moment, and keeps their descriptions. The error names the backends whose programs could not be
// described: their drivers' parameters are not checked.
func (r *Reviewer) Describe(ctx context.Context) error {
	backends := r.all()
	failed := make([]error, len(backends))
	var all sync.WaitGroup
	for n, b := range backends {
		if b.description != nil {
			continue
		}
		all.Go(func() {
			description, err := supervisor.Describe(ctx, r.options, b.spec)
			if err != nil {
				failed[n] = fmt.Errorf("backend %s: %w", b.spec.Name, err)
				return
			}
			r.log.Info("a backend is described", "backend", b.spec.Name, "driver", b.driver, "version", description.Version, "parameters", len(description.Parameters))
			backends[n].description = &description
		})
	}
	all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backends = backends
	return errors.Join(failed...)
}

// all returns a copy of the backends.
func (r *Reviewer) all() []backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.backends)
}
