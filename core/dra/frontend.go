package dra

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
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
	// binder prepares claims before their pods are bound.
	binder *binder
	// needed is when a driver was last configured or had a claim in the record, by its name; linger is
	// the constant. Only Run's goroutine uses them.
	needed map[string]time.Time
	linger time.Duration
	// ending are the deletions of slices in progress, and findEarlier.
	ending sync.WaitGroup

	// mu guards what follows. Only Run's goroutine changes drivers and slots, and not while it starts
	// or stops a driver: Status waits for the lock.
	mu      sync.Mutex
	round   *round.Round
	drivers map[string]*slot
	// earlier are drivers of the agent before this one that apply has not seen yet.
	earlier []string
}

// slot is what a driver that is to run does.
type slot struct {
	driver *Driver // nil while it cannot be started
	// err is why. It is started again at retry. began is when it was started, failures counts those
	// since it last served for maxRestart.
	err          error
	began, retry time.Time
	failures     int
	backend      string
	// published is the round that it publishes.
	published         *round.Round
	complete, binding bool
}

// NewFrontend returns a frontend whose drivers have these options; Name and Metadata are ignored.
// Without a Client, no driver is started, which is a problem of each.
func NewFrontend(opts Options) *Frontend {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	f := &Frontend{
		opts: opts, log: opts.Log, wake: make(chan struct{}, 1), drivers: map[string]*slot{}, order: orders{},
		needed: map[string]time.Time{}, linger: linger,
	}
	f.binder = newBinder(f)
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
	f.ending.Go(func() { f.findEarlier(ctx) })
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
	f.binder.stop()
	f.ending.Wait()
	var group sync.WaitGroup
	for _, driver := range f.running() {
		if driver != nil {
			group.Go(driver.Stop) // without the lock: it waits for calls
		}
	}
	group.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.drivers)
}

// running returns the drivers that are to run, by name; nil for one that cannot be started.
func (f *Frontend) running() map[string]*Driver {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]*Driver, len(f.drivers))
	for name, s := range f.drivers {
		all[name] = s.driver
	}
	return all
}

// apply starts, stops and updates the drivers.
func (f *Frontend) apply(ctx context.Context) {
	f.mu.Lock()
	r := f.round
	for _, name := range f.earlier {
		f.needed[name] = time.Now()
	}
	f.earlier = nil
	f.mu.Unlock()
	if r == nil {
		return
	}
	all := f.wanted(r)
	f.withdraw(ctx, all)
	awaited := false
	for name, w := range all {
		w.Complete, w.Binding = f.complete(r), f.binder.isAllowed()
		driver := f.started(ctx, name, w)
		if driver != nil && f.isNew(name, r, w.Publication) {
			driver.Publish(w.Publication)
		}
		awaited = awaited || driver != nil && driver.publisher.hasBinding() && slices.ContainsFunc(w.Devices, isSlowToPrepare)
	}
	f.binder.watch(ctx, awaited)
}

func isSlowToPrepare(d resource.Device) bool { return d.SlowToPrepare }

// withdraw ends the drivers that the configuration no longer has and that have no claims.
func (f *Frontend) withdraw(ctx context.Context, all map[string]wanted) {
	var ended []*Driver
	f.mu.Lock()
	for name, s := range f.drivers {
		if _, ok := all[name]; !ok {
			if s.driver != nil {
				ended = append(ended, s.driver)
			}
			delete(f.drivers, name)
		}
	}
	f.mu.Unlock()
	for _, driver := range ended {
		driver.Stop()
		for _, dir := range []string{metadataDir(f.opts.KubeletRootDir, driver.opts.Name), driver.directory()} {
			_ = os.Remove(dir) // it stays if it is not empty
		}
		f.ending.Go(func() {
			if err := driver.publisher.withdraw(ctx); err != nil {
				driver.log.Warn("the slices of a DRA driver that is no longer configured remain", "error", err)
			}
		})
	}
}

// started returns a driver that serves, which it starts if there is none and it is not too early
// after the last try; nil if it does not serve.
func (f *Frontend) started(ctx context.Context, name string, w wanted) *Driver {
	s := f.slot(name, w.Backend.Name)
	if s.driver != nil {
		err := s.driver.Failed()
		if err == nil && s.driver.opts.Metadata == w.metadata {
			if time.Since(s.began) > maxRestart {
				s.failures = 0
			}
			return s.driver
		}
		s.driver.Stop()
		f.set(s, nil, err)
		if err != nil {
			f.log.Warn("a DRA driver is started again", "driver", name, "reason", err)
			s.postpone()
		}
	}
	if time.Now().Before(s.retry) {
		return nil
	}
	before := s.err
	driver, err := f.start(ctx, name, w.metadata)
	f.set(s, driver, err)
	if err != nil {
		s.postpone()
		if before == nil || before.Error() != err.Error() {
			f.log.Warn("a DRA driver cannot be started", "driver", name, "error", err, "retry", s.retry)
		}
		return nil
	}
	s.began, s.published = time.Now(), nil
	return driver
}

// start starts a driver.
func (f *Frontend) start(ctx context.Context, name string, metadata bool) (*Driver, error) {
	if f.opts.Client == nil {
		return nil, errors.New("resources with api: dra need the API server: run the agent in a pod with a service account, or give it --kubeconfig")
	}
	opts := f.opts
	opts.Name, opts.Metadata = name, metadata
	return Start(ctx, opts)
}

// slot returns the slot of a driver, a new one if it has none.
func (f *Frontend) slot(name, backend string) *slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drivers[name] == nil {
		f.drivers[name] = &slot{}
	}
	f.drivers[name].backend = backend
	return f.drivers[name]
}

func (f *Frontend) set(s *slot, driver *Driver, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.driver, s.err = driver, err
}

// postpone sets when the driver is started again, after one more failure.
func (s *slot) postpone() {
	s.failures++
	s.retry = time.Now().Add(backoff.After(s.failures, firstRestart, maxRestart))
}

// isNew reports whether the driver does not publish the round yet, and records that it does.
func (f *Frontend) isNew(name string, r *round.Round, p Publication) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.drivers[name]
	isNew := s.published != r || s.complete != p.Complete || s.binding != p.Binding
	s.published, s.complete, s.binding = r, p.Complete, p.Binding
	return isNew
}

// complete reports whether all backends of the profile have reported, or had time for that.
func (f *Frontend) complete(r *round.Round) bool {
	return len(r.Snapshot.Backends) == len(r.Profile.Backends) || time.Since(f.began) > reportLimit
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
		status := Status{Driver: name, Backend: s.backend}
		if s.err != nil {
			status.Problem = s.err.Error()
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Driver, b.Driver) })
	return all
}

// Problems returns, for the operator, what concerns no single driver.
func (f *Frontend) Problems() []inventory.Problem {
	return append(f.opts.Record.Problems(), f.binder.problems()...)
}
