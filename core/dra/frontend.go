package dra

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/wake"
)

const (
	// reportLimit is how long the devices of a node wait, after the start, for backends that have
	// not reported yet. A node that shows some of its devices only looks too small for pending
	// pods, and an autoscaler adds another one.
	reportLimit = 30 * time.Second
	// checkInterval is how often the drivers are checked: whether they serve, and whether the
	// claims of a driver without devices have ended.
	checkInterval = 2 * time.Second
	// linger is how long a driver serves on after it was last configured and its last claim ended:
	// kubelet looks for claims to unprepare once a minute, and a pod stays until that succeeds. It may
	// have such a claim of which the driver never heard: kubelet called while the driver ended.
	linger = 2 * time.Minute
	// firstRestart and maxRestart bound the pause until a driver that failed is started again.
	firstRestart = time.Second
	maxRestart   = time.Minute
)

// Frontend serves the resources with the API config.APIDRA: it runs a [Driver] for each backend that
// has such devices, and for each one whose claims are in the record. Its methods are safe for
// concurrent use.
type Frontend struct {
	opts Options
	log  *slog.Logger
	wake chan struct{}
	// began is when Run began.
	began time.Time
	order orders
	// needed is when a driver was last configured or had a claim in the record, by its name; linger is
	// the constant. Only Run's goroutine uses them.
	needed map[string]time.Time
	linger time.Duration
	// ending are the deletions of slices in progress.
	ending sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	round   *round.Round
	drivers map[string]*slot
	// missing is why resources cannot be served at all; nil if they can.
	missing error
}

// slot is a driver that is to run.
type slot struct {
	driver *Driver // nil while it cannot be started
	// err is why. It is started again at retry. began is when it was started, failures counts those
	// since it last served for maxRestart.
	err          error
	began, retry time.Time
	failures     int
	backend      string
	// published is the round that it publishes.
	published *round.Round
	complete  bool
}

// metadata returns the option Metadata of a driver that is no longer configured: it runs on as it is.
// If it does not run, it is whether there are such files, which an unprepare is to remove.
func (f *Frontend) metadata(name string, s *slot) bool {
	if s != nil && s.driver != nil {
		return s.driver.opts.Metadata
	}
	_, err := os.Stat(filepath.Join(f.opts.KubeletDir, "plugins", name, "dra-device-metadata"))
	return err == nil
}

// NewFrontend returns a frontend whose drivers have these options; Name is ignored. Without a
// Client, resources are not served, and are problems.
func NewFrontend(opts Options) *Frontend {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	f := &Frontend{
		opts: opts, log: opts.Log, wake: make(chan struct{}, 1), drivers: map[string]*slot{}, order: orders{},
		needed: map[string]time.Time{}, linger: linger,
	}
	for _, c := range opts.Record.All() { // they may end before Run has looked
		f.needed[c.Driver] = time.Now()
	}
	return f
}

// Publish has the drivers publish a round. It does not block.
func (f *Frontend) Publish(r *round.Round) {
	f.mu.Lock()
	f.round = r
	f.mu.Unlock()
	wake.Send(f.wake)
}

// Run serves until ctx ends. It returns nil when no call of kubelet's is in progress any more.
func (f *Frontend) Run(ctx context.Context) error {
	f.began = time.Now()
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for {
		f.apply(ctx)
		select {
		case <-ctx.Done():
			f.stop()
			return nil
		case <-f.wake:
		case <-check.C:
		}
	}
}

// stop stops the drivers. The slices stay, as an agent that starts again within 30 s needs them.
func (f *Frontend) stop() {
	f.ending.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var group sync.WaitGroup
	for _, s := range f.drivers {
		if s.driver != nil {
			group.Go(s.driver.Stop)
		}
	}
	group.Wait()
	f.drivers = map[string]*slot{}
}

// apply starts, stops and updates the drivers.
func (f *Frontend) apply(ctx context.Context) {
	f.mu.Lock()
	r := f.round
	f.mu.Unlock()
	if r == nil {
		return
	}
	publications := f.publications(r)
	if f.opts.Client == nil {
		f.mu.Lock()
		f.missing = nil
		if len(publications) > 0 {
			f.missing = errors.New("resources with api: dra need the API server: run the agent in a pod with a service account, or give it --kubeconfig")
		}
		f.mu.Unlock()
		return
	}
	f.withdraw(ctx, publications)
	for name, publication := range publications {
		publication.Complete = f.complete(r)
		if driver := f.started(ctx, name, publication); driver != nil && f.isNew(name, r, publication.Complete) {
			driver.Publish(publication)
		}
	}
}

// withdraw ends the drivers that the configuration no longer has and that have no claims.
func (f *Frontend) withdraw(ctx context.Context, publications map[string]Publication) {
	var ended []*Driver
	f.mu.Lock()
	for name, s := range f.drivers {
		if _, ok := publications[name]; !ok {
			if s.driver != nil {
				ended = append(ended, s.driver)
			}
			delete(f.drivers, name)
		}
	}
	f.mu.Unlock()
	for _, driver := range ended {
		driver.Stop()
		f.ending.Go(func() {
			if err := driver.publisher.withdraw(ctx); err != nil {
				driver.log.Warn("the slices of a DRA driver that is no longer configured remain", "error", err)
			}
		})
	}
}

// started returns a driver that serves, which it starts if there is none and it is not too early
// after the last try; nil if it does not serve.
func (f *Frontend) started(ctx context.Context, name string, p Publication) *Driver {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.drivers[name]
	if s == nil {
		s = &slot{}
		f.drivers[name] = s
	}
	s.backend = p.Backend.Name
	if s.driver != nil {
		if s.err = s.driver.Failed(); s.err == nil && s.driver.opts.Metadata == p.Metadata {
			if time.Since(s.began) > maxRestart {
				s.failures = 0
			}
			return s.driver
		}
		s.driver.Stop()
		s.driver = nil
		if s.err != nil {
			f.log.Warn("a DRA driver is started again", "driver", name, "reason", s.err)
			s.postpone()
		}
	}
	if time.Now().Before(s.retry) {
		return nil
	}
	opts := f.opts
	opts.Name, opts.Metadata = name, p.Metadata
	if s.driver, s.err = Start(ctx, opts); s.err != nil {
		s.postpone()
		f.log.Warn("a DRA driver cannot be started", "driver", name, "error", s.err, "retry", s.retry)
		return nil
	}
	s.began, s.published = time.Now(), nil
	return s.driver
}

// postpone sets when the driver is started again, after one more failure.
func (s *slot) postpone() {
	s.failures++
	s.retry = time.Now().Add(backoff.After(s.failures, firstRestart, maxRestart))
}

// isNew reports whether the driver does not publish the round yet, and records that it does.
func (f *Frontend) isNew(name string, r *round.Round, complete bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.drivers[name]
	isNew := s.published != r || s.complete != complete
	s.published, s.complete = r, complete
	return isNew
}

// complete reports whether all backends of the profile have reported, or had time for that.
func (f *Frontend) complete(r *round.Round) bool {
	return len(r.Snapshot.Backends) == len(r.Profile.Backends) || time.Since(f.began) > reportLimit
}

// publications returns what each driver is to publish, by its name.
func (f *Frontend) publications(r *round.Round) map[string]Publication {
	all := map[string]Publication{}
	f.mu.Lock()
	running := maps.Clone(f.drivers)
	f.mu.Unlock()
	for i := range r.Profile.Backends {
		b := &r.Profile.Backends[i]
		devices, named := f.devices(r, b.Name)
		_, runs := running[b.DRA.Driver]
		if !named && len(devices) == 0 && (!runs || !selects(r.Profile, b.Name)) {
			continue
		}
		f.needed[b.DRA.Driver] = time.Now()
		all[b.DRA.Driver] = Publication{
			Backend: backendOf(r, b.Name), Reported: r.Backend(b.Name) != nil, Devices: devices, Resource: r.ResourceOf, Evict: b.DRA.Evict, Metadata: b.DRA.Metadata, Kinds: b.DRA.Kinds,
		}
	}
	for _, c := range f.opts.Record.All() {
		p, ok := all[c.Driver]
		if !ok {
			p = Publication{Backend: backendOf(r, c.Devices[0].Backend), Reported: true, Resource: r.ResourceOf, Metadata: f.metadata(c.Driver, running[c.Driver])}
			if b := r.Profile.Backend(p.Backend.Name); b != nil {
				p.Kinds, p.Metadata = b.DRA.Kinds, b.DRA.Metadata // or another prepare gives kubelet another answer
			}
		}
		for _, d := range c.Devices {
			if device := r.Device(d.Key()); device != nil {
				p.Claimed = append(p.Claimed, resource.Device{Device: device, Verdict: r.OwnVerdict(d.Key())})
			}
		}
		all[c.Driver] = p
		f.needed[c.Driver] = time.Now()
	}
	// For kubelet's unprepare.
	for _, i := range f.opts.Record.Unreadable() {
		f.keep(all, i.Driver, running)
	}
	for name, s := range running {
		if s.driver != nil && !s.driver.isFinished() {
			f.keep(all, name, running)
		}
	}
	for name, last := range f.needed {
		if time.Since(last) < f.linger {
			f.keep(all, name, running)
		}
	}
	return all
}

// keep adds a driver without devices, unless it is there.
func (f *Frontend) keep(all map[string]Publication, name string, running map[string]*slot) {
	if _, ok := all[name]; !ok {
		all[name] = Publication{Backend: unknownBackend, Reported: true, Metadata: f.metadata(name, running[name])}
	}
}

// unknownBackend is that of a driver that is no longer configured and has no claim in the record.
var unknownBackend = &inventory.Backend{}

// backendOf returns a backend of the round; one without a description if it has not reported.
func backendOf(r *round.Round, name string) *inventory.Backend {
	return cmp.Or(r.Backend(name), &inventory.Backend{Name: name})
}

// selects reports whether a resource with the API config.APIDRA may select devices of the backend.
func selects(p *config.Profile, backend string) bool {
	return slices.ContainsFunc(p.Resources, func(r config.Resource) bool {
		return r.API == config.APIDRA && cmp.Or(r.Backend, backend) == backend
	})
}

// devices returns the devices of a backend that a driver publishes, in the order in which the
// scheduler is to try them, without those that a container has by the device plugin API. named: a
// resource names the backend.
func (f *Frontend) devices(r *round.Round, backend string) (all []resource.Device, named bool) {
	for _, res := range r.Table.Resources {
		if res.API != config.APIDRA {
			continue
		}
		named = named || res.Backend == backend
		var own []resource.Device
		for _, d := range res.Devices {
			if d.Backend == backend {
				own = append(own, d)
			}
		}
		if len(own) == 0 {
			continue
		}
		for _, d := range f.order.sort(backend+" "+res.Name, own) {
			if !round.IsHeldElsewhere(d.Verdict) {
				all = append(all, d)
			}
		}
	}
	return all, named
}

// Status returns what the drivers do, sorted by name.
func (f *Frontend) Status() (all []Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, s := range f.drivers {
		if s.driver != nil {
			all = append(all, s.driver.Status())
			continue
		}
		all = append(all, Status{Driver: name, Backend: s.backend, Problem: s.err.Error()})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Driver, b.Driver) })
	return all
}

// Problems returns, for the operator, what concerns no single driver.
func (f *Frontend) Problems() []inventory.Problem {
	f.mu.Lock()
	missing := f.missing
	f.mu.Unlock()
	all := f.opts.Record.Problems()
	if missing != nil {
		all = append(all, inventory.Problem{Message: "dynamic resource allocation: " + missing.Error()})
	}
	return all
}
