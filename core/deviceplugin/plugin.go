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
)

// Names says which CDI name a device has on disk now. Qualified fails for a
// device that has none, with an error that says why.
type Names interface {
	Qualified(inventory.Key) (string, error)
}

// Lifecycle is what kubelet's calls lead to, as [lifecycle.Lifecycle] has it. The methods
// are called concurrently and should return soon after their context ends. An error that
// carries a gRPC status keeps its code.
type Lifecycle interface {
	// Take is called before an allocation is answered; an error refuses it. Kubelet waits
	// without a deadline of its own, so it must be quick. name is the CDI name of what this
	// container alone gets, after its devices; "" for nothing. It is not used if the
	// resource is not injected by CDI.
	Take(ctx context.Context, r lifecycle.Request) (name string, err error)
	// Return follows a Take that returned nil if the allocation is refused after all: no
	// container gets these units. It must not block.
	Return(r lifecycle.Request)
	// Prepare is called before every start of a container with a unit whose device has
	// Hooks.Prepare; an error fails the start. The context ends after the 30 seconds that
	// kubelet gives.
	Prepare(ctx context.Context, r lifecycle.Request) error
}

// Options say where kubelet is and who is told.
type Options struct {
	// Dir is kubelet's device-plugins directory, RegistryDir its
	// plugins_registry; both absolute. They may be missing: kubelet makes them.
	Dir         string
	RegistryDir string
	Lifecycle   Lifecycle
	// Answered, if set, is called after each call that a pod depends on, with how
	// long it took until its answer was written, and its error. It must not block.
	Answered func(call Call, resource string, took time.Duration, err error)
	// Chosen, if set, is called after each choice of units for a container, with how
	// long it took. It must not block.
	Chosen func(resource string, choice topology.Result, took time.Duration)
	// Trouble, if set, is told when Plugin.Trouble changes. It must not block.
	Trouble func(string)
	// Nodes resolves and checks the device nodes that containers get without CDI.
	Nodes inventory.HostNodes
	// Files announces changes of the directories; nil for none but the polls'.
	Files *filewatch.Watcher
	// Log is where the package logs; nil discards.
	Log *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// Timing are the package's intervals. A zero field means its default.
type Timing struct {
	// Register is the deadline of the Register call. Kubelet dials back for up
	// to 10s inside it, so it must be longer. Default 15s.
	Register time.Duration
	// Connect is how long kubelet may take from its answer to Register, or from
	// seeing a socket in plugins_registry, to ListAndWatch. Default 10s.
	Connect time.Duration
	// Grace is how long a broken stream may stay broken before the resource is
	// registered again, if kubelet was not restarted. Default 1s.
	Grace time.Duration
	// Backoff is the pause after the first failure in a row; it doubles up to
	// MaxBackoff, with jitter. Defaults 100ms and 10s.
	Backoff, MaxBackoff time.Duration
	// Patience is how long kubelet may be absent before that is trouble. Default
	// 30s: a kubelet that starts takes less.
	Patience time.Duration
	// Poll is how often the directories are examined without an event; a tenth as often
	// while kubelet is there and they are watched. Default 1s.
	Poll time.Duration
	// MinInterval is the least time between two lists on a stream; a list that
	// takes a healthy device away waits a fifth of it at most. Default 50ms.
	MinInterval time.Duration
	// Shutdown is how long the end of Run may take. Default 2s.
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

// Plugin is every resource of the node on the device plugin API.
type Plugin struct {
	opts    Options
	log     *slog.Logger
	sockets *sockets
	watch   *kubeletWatch
	started atomic.Bool

	wake chan struct{} // 1 slot: something was published
	// yielded ends the registering, with its context.
	yielded chan struct{}
	yield   func()

	mu      sync.Mutex
	table   *resource.Table
	names   Names
	adverts map[string]*advert
	rounds  uint64 // tables applied
}

// maxUnlisted bounds the resources that stay registered though they left the table.
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

// Publish makes table, with the CDI names that go with it, what kubelet is told
// from now on. It never blocks; of several the newest wins. It may be called
// before Run and from any goroutine.
func (p *Plugin) Publish(table *resource.Table, names Names) {
	p.mu.Lock()
	p.table, p.names = table, names
	p.mu.Unlock()
	poke(p.wake)
}

// Run serves until ctx ends. Then every socket of ours is gone, every allocation
// in progress answered if that was possible in time, and no goroutine left. It
// fails if that takes longer than one and a half times Timing.Shutdown, or if it ran before. Trouble
// with kubelet is not an error of Run: it is retried, logged, and in Status.
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
	// If it was we who did not run for so long, what had to end has half of it left.
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

// sweep removes the sockets of dead processes. The result is what stood in the way, which
// is logged unless it is what was said before; "" for nothing.
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

// sweepAgain removes what sweep could not know to be stale at the start: a process that
// is killed goes socket by socket, and its successor may be there before the last. What
// could not be removed is tried again until it can be: the directory may be read-only for
// a while, and nobody else removes it.
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

// Yield leaves kubelet to another process: nothing is registered from now on, but
// what is goes on being served, with its last list, until Run ends. It returns
// when no Allocate and no PreStartContainer is in progress, or ctx ends.
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

// Repeat sends kubelet the list of one resource again, which makes kubelet write its
// checkpoint.
func (p *Plugin) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.adverts)) {
		if p.adverts[name].repeat() {
			return
		}
	}
}

// apply gives every resource its view of what was published last.
func (p *Plugin) apply(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return
	}
	listed := make(map[string]struct{}, len(p.table.Resources))
	for _, r := range p.table.Resources {
		listed[r.Name] = struct{}{}
		a, ok := p.adverts[r.Name]
		if !ok {
			a = newAdvert(r.Name, newView(r, p.names, nil), p)
			p.adverts[r.Name] = a
		} else {
			a.publish(newView(r, p.names, a.view()))
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
			delete(p.adverts, name)
			continue
		}
		if a.unlisted == 0 {
			a.unlisted = p.rounds
		}
		unlisted = append(unlisted, a)
	}
	p.empty(unlisted)
}

// empty takes the units of resources that left the table away, and ends those that
// left it first if there are too many. The caller holds p.mu.
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
		a.log.Info("the resource left the configuration long ago, and many others since: it is not registered any more")
		a.end()
		delete(p.adverts, a.name)
	}
}

// poke fills a 1-slot channel, or finds it full.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Trouble says why kubelet is not there, and what to look at; "" if it is, or has
// not been away for Timing.Patience.
func (p *Plugin) Trouble() string {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	return p.watch.trouble
}

// Status is how every resource stands, sorted by name.
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
