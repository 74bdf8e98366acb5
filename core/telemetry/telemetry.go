package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// shownFor is how many of its intervals a sample is shown.
const shownFor = 3

// Options of [New]; all but Log, Reserved and Timing are required.
type Options struct {
	// Sample hands a backend's samples to take until the context ends, as
	// [supervisor.Supervisor.Sample] does.
	Sample func(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error
	// Look returns what is known of devices now; its answer is called for many devices and
	// must not block. False: there is no such device.
	Look func() func(inventory.Key) (Owner, bool)
	// Reserved are names of metrics, without [Prefix], that backends may not use.
	Reserved []string
	// Log is where problems are logged, each once; nil discards.
	Log *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// Owner is the resource and the container that have a device. Namespace, Pod and Container
// are empty if no container has it, if several have, or while it is not known which.
type Owner struct {
	Resource, Namespace, Pod, Container string
}

// Timing are the intervals. Zero means the default.
type Timing struct {
	// Idle is how long after the last read values are still measured; five intervals if
	// that is longer. Default 5 min.
	Idle time.Duration
	// First is how long the read that starts the streams waits for samples. Default 1 s.
	First time.Duration
	// Silence is the least time without a sample after which a stream is started again;
	// three intervals if that is longer. Default 30 s.
	Silence time.Duration
	// Backoff is the pause after a stream that failed; it doubles up to
	// BackoffLimit. Defaults 1 s, 1 min.
	Backoff, BackoffLimit time.Duration
	// Stable is how long a stream must have run before the backoff is reset. Default 1 min.
	Stable time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Idle = cmp.Or(t.Idle, 5*time.Minute)
	t.First = cmp.Or(t.First, time.Second)
	t.Silence = cmp.Or(t.Silence, 30*time.Second)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, time.Minute)
	t.Stable = cmp.Or(t.Stable, time.Minute)
	return t
}

// pause returns the backoff after this number of failures.
func (t Timing) pause(failures int) time.Duration {
	return backoff.After(failures+1, t.Backoff, t.BackoffLimit)
}

// Telemetry has the newest samples. Its methods are safe for concurrent use, and do not
// block, but that the first read waits for samples.
type Telemetry struct {
	opts   Options
	log    *slog.Logger
	timing Timing
	wake   chan struct{}
	group  sync.WaitGroup

	mu sync.Mutex
	// running: Run runs. Without it no read waits for samples.
	running bool
	// targets are the intervals of the backends that can be measured now.
	targets map[string]time.Duration
	// unsampled is why other backends cannot be measured.
	unsampled map[string]string
	// lastRead is when values were last read; zero for never.
	lastRead time.Time
	feeds    map[string]*feed
	// budgets are the budgets of all backends that were measured: a new stream does not get
	// a new one.
	budgets map[string]*budget
	// news is closed at the next change of a feed.
	news chan struct{}
}

// New makes a Telemetry that measures nothing yet.
func New(opts Options) *Telemetry {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Telemetry{
		opts: opts, log: opts.Log, timing: opts.Timing.withDefaults(), wake: make(chan struct{}, 1),
		feeds: map[string]*feed{}, budgets: map[string]*budget{}, news: make(chan struct{}),
	}
}

// Apply sets which backends can be measured now, and at which interval. The samples of
// others are dropped. It returns at once.
func (t *Telemetry) Apply(targets map[string]time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(t.targets, targets) {
		return
	}
	t.targets = maps.Clone(targets)
	if len(t.feeds) > 0 || t.isRead(time.Now()) {
		signal(t.wake)
	}
}

// Run measures while values are read, until ctx ends.
func (t *Telemetry) Run(ctx context.Context) error {
	t.mu.Lock()
	t.running = true
	t.mu.Unlock()
	defer t.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-timer.C:
		}
		timer.Stop()
		if next := t.step(ctx, time.Now()); !next.IsZero() {
			timer.Reset(max(time.Until(next), 0))
		}
	}
}

// stop ends all streams.
func (t *Telemetry) stop() {
	t.mu.Lock()
	t.running = false
	t.changed()
	for _, f := range t.feeds {
		f.cancel()
	}
	t.mu.Unlock()
	t.group.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.feeds)
}

// step starts and ends streams, and returns when to call it again although nothing changes;
// zero means never. A stream of a backend starts only when the one before has ended.
func (t *Telemetry) step(ctx context.Context, now time.Time) (next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[string]*sample{}
	for name, f := range t.feeds {
		interval, target := t.targets[name]
		wanted := target && now.Before(t.until(interval))
		if !wanted || interval != f.interval {
			f.cancel()
		}
		if !wanted {
			f.forget()
		}
		if f.ended {
			kept[name] = f.newest
			delete(t.feeds, name)
		}
	}
	for name, interval := range t.targets {
		until := t.until(interval)
		if !now.Before(until) {
			continue
		}
		if t.feeds[name] == nil {
			t.begin(ctx, name, interval, kept[name])
		}
		if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return next
}

// until is how long a backend is measured without another read. The caller holds t.mu.
func (t *Telemetry) until(interval time.Duration) time.Time {
	if t.lastRead.IsZero() {
		return time.Time{}
	}
	return t.lastRead.Add(max(t.timing.Idle, 5*interval))
}

// isRead reports whether a backend is to be measured. The caller holds t.mu.
func (t *Telemetry) isRead(now time.Time) bool {
	for _, interval := range t.targets {
		if now.Before(t.until(interval)) {
			return true
		}
	}
	return false
}

// request records a read. The first in a while waits for samples, until each backend has
// sent one or failed, or for Timing.First.
func (t *Telemetry) request(ctx context.Context) {
	t.mu.Lock()
	t.lastRead = time.Now()
	for name := range t.targets {
		if t.feeds[name] == nil {
			signal(t.wake)
		}
	}
	t.mu.Unlock()
	timer := time.NewTimer(t.timing.First)
	defer timer.Stop()
	for {
		ready, news := t.ready(time.Now())
		if ready {
			return
		}
		select {
		case <-news:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ready reports whether there is nothing to wait for, and returns what is closed
// when that may have changed.
func (t *Telemetry) ready(now time.Time) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		return true, nil
	}
	for name := range t.targets {
		f := t.feeds[name]
		if f == nil || !f.settled && now.Sub(f.begun) < t.timing.First {
			return false, t.news
		}
	}
	return true, nil
}

// samples are those that may be shown, by backend.
func (t *Telemetry) samples(now time.Time) map[string]*sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	samples := make(map[string]*sample, len(t.feeds))
	for name, f := range t.feeds {
		if _, target := t.targets[name]; target && f.newest.fresh(now) {
			samples[name] = f.newest
		}
	}
	return samples
}

// Problem is a problem with a backend's telemetry.
type Problem struct{ Backend, Message string }

// Problems returns the problems, sorted; none while nothing is measured.
func (t *Telemetry) Problems() []Problem {
	covered := covered(t.samples(time.Now()))
	t.mu.Lock()
	defer t.mu.Unlock()
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(t.feeds)) {
		f := t.feeds[name]
		if f.failure != "" {
			problems = append(problems, Problem{name, f.failure})
		}
		if f.newest == nil {
			continue
		}
		for _, c := range f.newest.complaints {
			problems = append(problems, Problem{name, "telemetry: " + c.text})
		}
		for _, gauge := range slices.Sorted(maps.Keys(f.newest.families)) {
			if covered[gauge] {
				problems = append(problems, Problem{name, fmt.Sprintf(
					"telemetry: the gauge %s is left out: there is a counter %s_total, and in OpenMetrics both have one name", gauge, gauge)})
			}
		}
	}
	return problems
}

// missing returns why there are no values of a backend that can be measured; "" if there
// are. The caller holds t.mu.
func (t *Telemetry) missing(backend string) string {
	f := t.feeds[backend]
	switch {
	case f != nil && f.newest.fresh(time.Now()):
		return ""
	case f != nil && f.failure != "":
		return f.failure
	}
	return "no sample has come yet"
}

// changed wakes the reads that wait. The caller holds t.mu.
func (t *Telemetry) changed() {
	close(t.news)
	t.news = make(chan struct{})
}

// signal puts one signal into the channel, unless one is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
