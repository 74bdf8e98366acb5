package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/core/wake"
)

// Names has the CDI names that are on disk. Qualified returns a device's qualified name, or
// an error with the reason why the device has none.
type Names interface {
	Qualified(inventory.Key) (string, error)
}

// Lifecycle handles kubelet's calls; [lifecycle.Lifecycle] implements it. The methods are
// called concurrently and should return soon after their context ends. An error that carries
// a gRPC status keeps its code.
type Lifecycle interface {
	// Take is called before an allocation is answered; an error refuses it. Kubelet waits
	// without a deadline of its own, so Take must be quick. name is the CDI name of the edits
	// for this container alone, which are applied after those of its devices; "" for none. It
	// is not used if the resource is not injected by CDI.
	Take(ctx context.Context, r lifecycle.Request) (name string, err error)
	// Return undoes a Take that returned nil if the allocation is refused later: no container
	// gets these units. It must not block.
	Return(r lifecycle.Request)
	// Unprepared reports whether units that are in no list any more belong to a container none
	// of whose devices had to be prepared.
	Unprepared(resource string, units []string) bool
	// Prepare is called before every start of a container with a unit whose device has
	// Hooks.Prepare; an error fails the start. The context ends after the 30 seconds that
	// kubelet gives.
	Prepare(ctx context.Context, r lifecycle.Request) error
}

// Options have kubelet's directories, the callbacks and the intervals.
type Options struct {
	// Dir is kubelet's device-plugins directory, RegistryDir its
	// plugins_registry; both absolute. They may be missing: kubelet creates them.
	Dir         string
	RegistryDir string
	Lifecycle   Lifecycle
	// Answered, if set, is called after each call that a pod depends on, with its error and
	// the time until its answer was written. It must not block.
	Answered func(call Call, resource string, took time.Duration, err error)
	// Chosen, if set, is called after each choice of units for a container, with the time
	// that it took. It must not block.
	Chosen func(resource string, choice topology.Result, took time.Duration)
	// Trouble, if set, is called with the new value when Plugin.Trouble changes. It must not
	// block.
	Trouble func(string)
	// OnHost checks and resolves the edits that containers get without CDI; nil: they are not
	// checked.
	OnHost func() inventory.OnHost
	// Files reports changes in the directories; with nil they are only polled.
	Files *filewatch.Watcher
	// Log gets the package's logs; nil discards them.
	Log *slog.Logger
	// Timing is for tests; the zero value is for a node.
	Timing Timing
}

// Timing are the package's intervals. A zero field means its default.
type Timing struct {
	// Register is the deadline of the Register call. Kubelet connects to the plugin for up
	// to 10s within the call, so it must be longer. Default 15s.
	Register time.Duration
	// Connect is the time within which kubelet must call ListAndWatch, counted from its
	// answer to Register or, in plugins_registry, from when both kubelet and the socket are
	// there. Default 10s.
	Connect time.Duration
	// Grace is how long kubelet may take to open a stream again after one ended, before the
	// resource is registered again, if kubelet was not restarted. Default 1s.
	Grace time.Duration
	// Backoff is the pause after the first failure in a row; it doubles up to
	// MaxBackoff, with jitter. Defaults 100ms and 10s.
	Backoff, MaxBackoff time.Duration
	// Patience is how long kubelet may be absent before Trouble reports it. Default 30s:
	// kubelet starts in less.
	Patience time.Duration
	// Poll is how often the directories are examined without an event; a tenth as often
	// while kubelet is there and they are watched. Default 1s.
	Poll time.Duration
	// MinInterval is the least time between two lists on a stream; it is a fifth of that for
	// a list without a device that was healthy in the one before. Default 50ms.
	MinInterval time.Duration
	// Shutdown bounds the time that Run needs to return after ctx ends. Default 2s.
	Shutdown time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Register, 15 * time.Second},
		{&t.Connect, 10 * time.Second},
		{&t.Grace, time.Second},
		{&t.Backoff, 100 * time.Millisecond},
		{&t.MaxBackoff, 10 * time.Second},
		{&t.Patience, 30 * time.Second},
		{&t.Poll, time.Second},
		{&t.MinInterval, 50 * time.Millisecond},
		{&t.Shutdown, 2 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return t
}

// Plugin serves every resource of the node by the device plugin API.
type Plugin struct {
	opts    Options
	log     *slog.Logger
	sockets *sockets
	watch   *kubeletWatch
	started atomic.Bool

	wake chan struct{} // 1 slot: something was published
	// yielded is closed when nothing may be registered any more; yield closes it.
	yielded chan struct{}
	yield   func()

	rounds uint64 // tables applied; only apply uses it

	mu    sync.Mutex
	table *resource.Table
	names Names
	// adverts are changed by apply alone.
	adverts map[string]*advert
}

// maxUnlisted bounds the resources that stay registered after they left the table.
const maxUnlisted = 64

// New checks the options. It touches nothing on disk.
func New(opts Options) (*Plugin, error) {
	if !filepath.IsAbs(opts.Dir) || !filepath.IsAbs(opts.RegistryDir) {
		return nil, fmt.Errorf("kubelet's directories must be absolute paths, but are %q and %q", opts.Dir, opts.RegistryDir)
	}
	opts.Dir, opts.RegistryDir = filepath.Clean(opts.Dir), filepath.Clean(opts.RegistryDir)
	if opts.Lifecycle == nil {
		return nil, errors.New("a Lifecycle is needed")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.OnHost == nil {
		opts.OnHost = func() inventory.OnHost { return inventory.Unchecked }
	}
	opts.Timing = opts.Timing.withDefaults()
	sockets, err := newSockets(opts.Dir, opts.RegistryDir)
	if err != nil {
		return nil, err
	}
	yielded := make(chan struct{})
	return &Plugin{
		opts: opts, log: opts.Log, sockets: sockets,
		watch:   newKubeletWatch(opts),
		wake:    make(chan struct{}, 1),
		yielded: yielded, yield: sync.OnceFunc(func() { close(yielded) }),
		adverts: map[string]*advert{},
	}, nil
}

// Publish sets the table that kubelet's lists and answers are made from, and its CDI names. It
// never blocks. Tables may be skipped: the newest one is used. It may be called before Run and
// from any goroutine.
func (p *Plugin) Publish(table *resource.Table, names Names) {
	p.mu.Lock()
	p.table, p.names = table, names
	p.mu.Unlock()
	wake.Send(p.wake)
}

// Run serves until ctx ends. When it returns, the sockets of this process are removed, the
// calls in progress are answered if there was time, and its goroutines have ended. It fails if
// that takes longer than one and a half times Timing.Shutdown, or if Run was called before.
// Problems with kubelet are not errors of Run: it retries and logs them, and Status has them.
func (p *Plugin) Run(ctx context.Context) error {
	if p.started.Swap(true) {
		return errors.New("a device plugin runs once")
	}
	problem := p.sweep(ctx, "")
	var wg sync.WaitGroup
	wg.Go(func() { p.sweepAgain(ctx, problem) })
	wg.Go(func() { p.watch.run(ctx) })
	for {
		select {
		case <-p.wake:
			p.apply(ctx, &wg)
			continue
		case <-ctx.Done():
		}
		break
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	limit := p.opts.Timing.Shutdown
	// The second wait is for a process that was stopped during the first: the goroutines then
	// had less time than the timer shows.
	for _, wait := range []time.Duration{limit, limit / 2} {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-done:
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("device plugin: calls, or the removal of a socket, had not ended %v after the end was asked for", limit+limit/2)
}

// sweep removes the sockets of dead processes. It returns the problem, "" if there is none,
// and logs one that differs from before.
func (p *Plugin) sweep(ctx context.Context, before string) (problem string) {
	err := p.sockets.removeStale(ctx, p.log)
	if err == nil {
		return ""
	}
	if problem = err.Error(); problem != before {
		p.log.Warn("sockets of dead processes may be left, trying again", "error", err)
	}
	return problem
}

// sweepAgain repeats sweep until one finds no problem. One repetition is always needed: the
// sockets of a killed process close one after the other, and some may accept connections
// when the next process starts. The directory may be read-only for a while, and no other
// process removes the sockets.
func (p *Plugin) sweepAgain(ctx context.Context, problem string) {
	ticker := time.NewTicker(p.opts.Timing.Connect)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if problem = p.sweep(ctx, problem); problem == "" {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// Yield leaves kubelet to another process: no resource is registered any more, and the
// registered ones are served until Run ends. It returns when no Allocate and no
// PreStartContainer is in progress, or when ctx ends.
func (p *Plugin) Yield(ctx context.Context) {
	p.yield()
	p.mu.Lock()
	var instances []*instance
	for _, a := range p.adverts {
		instances = append(instances, a.instances()...)
	}
	p.mu.Unlock()
	for _, in := range instances {
		in.calls.drain(ctx)
	}
}

// Repeat sends the list of one registered resource again: kubelet writes its checkpoint after
// each list.
func (p *Plugin) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.adverts)) {
		if p.adverts[name].repeat() {
			return
		}
	}
}

// apply makes the view of every resource from the latest table. Only the goroutine of Run calls
// it and changes adverts, so it holds p.mu for the changes alone: a list and a topology of
// thousands of units take a while.
func (p *Plugin) apply(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	table, names := p.table, p.names
	p.mu.Unlock()
	if table == nil {
		return
	}
	listed := make(map[string]struct{}, len(table.Resources))
	for _, r := range table.Resources {
		listed[r.Name] = struct{}{}
		a, ok := p.adverts[r.Name]
		if !ok {
			a = newAdvert(r.Name, newView(r, names, nil), p)
			p.mu.Lock()
			p.adverts[r.Name] = a
			p.mu.Unlock()
		} else {
			a.publish(newView(r, names, a.view()))
		}
		a.unlisted = 0
		if (len(a.view().units) > 0 || r.Held) && !a.running {
			a.running = true
			running, end := context.WithCancel(ctx)
			a.end = end
			wg.Go(func() { a.run(running, p.yielded) })
		}
	}
	p.rounds++
	var unlisted []*advert
	for name, a := range p.adverts {
		if _, ok := listed[name]; ok {
			continue
		}
		if !a.running {
			p.forget(name)
			continue
		}
		if a.unlisted == 0 {
			a.unlisted = p.rounds
		}
		unlisted = append(unlisted, a)
	}
	p.empty(unlisted)
}

func (p *Plugin) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.adverts, name)
}

// empty publishes empty lists for resources that left the table, and ends those that left it
// first if there are more than maxUnlisted.
func (p *Plugin) empty(unlisted []*advert) {
	slices.SortFunc(unlisted, func(a, b *advert) int {
		return cmp.Or(cmp.Compare(b.unlisted, a.unlisted), strings.Compare(a.name, b.name))
	})
	for i, a := range unlisted {
		if i < maxUnlisted {
			if v := a.view(); !v.unlisted {
				a.log.Info("the resource is no longer configured: it stays registered, without devices")
				a.publish(v.emptied())
			}
			continue
		}
		a.log.Info("too many resources left the configuration after this one: it is no longer registered")
		a.end()
		p.forget(a.name)
	}
}

// Trouble returns what is missing of kubelet and what to check; "" if kubelet's socket exists,
// or has been missing for less than Timing.Patience.
func (p *Plugin) Trouble() string {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	return p.watch.trouble
}

// Status returns the status of every resource, sorted by name.
func (p *Plugin) Status() []Status {
	p.mu.Lock()
	adverts := make([]*advert, 0, len(p.adverts))
	for _, a := range p.adverts {
		adverts = append(adverts, a)
	}
	p.mu.Unlock()
	all := make([]Status, 0, len(adverts))
	for _, a := range adverts {
		all = append(all, a.status())
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Resource, b.Resource) })
	return all
}
