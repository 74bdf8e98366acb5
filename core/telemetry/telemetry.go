package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// shownFor is for how many of its intervals a sample is shown.
const shownFor = 3

// Options of [New]; all but Log, Reserved and Timing are required.
type Options struct {
	// Sample passes a backend's samples to take until ctx ends, as
	// [supervisor.Supervisor.Sample] does.
	Sample func(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error
	// Owners returns the current owners of devices; the function is called for many devices
	// and must not block. It returns false for an unknown device.
	Owners func() func(inventory.Key) (Owner, bool)
	// Reserved are names of metrics, without [Prefix], that backends may not use.
	Reserved []string
	// Log receives the failures of backends; nil discards them.
	Log *slog.Logger
	// Timing is for tests; the zero value has the defaults.
	Timing Timing
}

// Owner is the resource that a device belongs to, and what is known of its holders.
type Owner struct {
	Resource string
	holders.Owner
}

// Timing are the intervals. Zero means the default.
type Timing struct {
	// Idle is how long after the latest request values are still measured; five intervals
	// if that is longer. Default 5 min.
	Idle time.Duration
	// First is how long the request that starts the streams waits for samples. Default 1 s.
	First time.Duration
	// Silence is the time without a sample after which a stream is restarted; three
	// intervals if that is longer. Default 30 s.
	Silence time.Duration
	// Backoff is the pause after a stream that failed; it doubles up to
	// BackoffLimit. Defaults 1 s, 1 min.
	Backoff, BackoffLimit time.Duration
	// Stable is how long a stream must have gone on for earlier failures to be
	// forgotten. Default 1 min.
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

// Telemetry holds the newest samples. Its methods are safe for concurrent use; only the first
// request blocks.
type Telemetry struct {
	opts   Options
	log    *slog.Logger
	timing Timing
	wake   chan struct{}
	group  sync.WaitGroup

	mu sync.Mutex
	// running: Run runs. Without it no request waits for samples.
	running bool
	// targets are the intervals of the backends that can be measured now.
	targets map[string]time.Duration
	// unsampled is why other backends cannot be measured.
	unsampled map[string]string
	// requestedAt is the time of the latest request; zero for never.
	requestedAt time.Time
	feeds       map[string]*feed
	// budgets are the budgets of all backends that were measured: a new stream does not get
	// a new one.
	budgets map[string]*budget
	// changes is closed at the next change of a feed.
	changes chan struct{}
}

// New returns a Telemetry that measures nothing yet.
func New(opts Options) *Telemetry {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Telemetry{
		opts: opts, log: opts.Log, timing: opts.Timing.withDefaults(), wake: make(chan struct{}, 1),
		feeds: map[string]*feed{}, budgets: map[string]*budget{}, changes: make(chan struct{}),
	}
}

// Apply sets the backends that can be measured now, with their intervals. Samples of other
// backends are dropped. It does not block.
func (t *Telemetry) Apply(targets map[string]time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(t.targets, targets) {
		return
	}
	t.targets = maps.Clone(targets)
	if len(t.feeds) > 0 || t.active(time.Now()) {
		wake.Send(t.wake)
	}
}

// Run measures while values are requested, until ctx ends.
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

// step starts and ends streams, and returns when it must be called again without a change;
// zero means never. A backend's new stream starts after its old one has ended.
func (t *Telemetry) step(ctx context.Context, now time.Time) (next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
			delete(t.feeds, name)
		}
	}
	for name, interval := range t.targets {
		until := t.until(interval)
		if !now.Before(until) {
			continue
		}
		if t.feeds[name] == nil {
			t.begin(ctx, name, interval)
		}
		if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return next
}

// until returns how long a backend is measured without another request. The caller holds
// t.mu.
func (t *Telemetry) until(interval time.Duration) time.Time {
	if t.requestedAt.IsZero() {
		return time.Time{}
	}
	return t.requestedAt.Add(max(t.timing.Idle, 5*interval))
}

// active reports whether any backend is to be measured. The caller holds t.mu.
func (t *Telemetry) active(now time.Time) bool {
	for _, interval := range t.targets {
		if now.Before(t.until(interval)) {
			return true
		}
	}
	return false
}

// request records that values are requested. If it starts the streams, it waits until each
// backend has sent a sample or failed, for at most Timing.First.
func (t *Telemetry) request(ctx context.Context) {
	t.mu.Lock()
	t.requestedAt = time.Now()
	for name := range t.targets {
		if t.feeds[name] == nil {
			wake.Send(t.wake)
		}
	}
	t.mu.Unlock()
	timer := time.NewTimer(t.timing.First)
	defer timer.Stop()
	for {
		ready, changes := t.ready(time.Now())
		if ready {
			return
		}
		select {
		case <-changes:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ready reports whether a request need not wait, and returns a channel that is closed at the
// next change.
func (t *Telemetry) ready(now time.Time) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		return true, nil
	}
	for name := range t.targets {
		f := t.feeds[name]
		if f == nil || !f.answered && now.Sub(f.begun) < t.timing.First {
			return false, t.changes
		}
	}
	return true, nil
}

// samples returns those that may be shown, by backend.
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

// Problem is a problem of a backend's telemetry.
type Problem struct{ Backend, Message string }

// Problems returns those of all backends, sorted; none while no values are requested.
func (t *Telemetry) Problems() []Problem {
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
		for _, c := range f.newest.violations {
			problems = append(problems, Problem{name, "telemetry: " + c.text})
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

// changed wakes the waiting requests. The caller holds t.mu.
func (t *Telemetry) changed() {
	close(t.changes)
	t.changes = make(chan struct{})
}
