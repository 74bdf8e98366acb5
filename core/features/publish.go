package features

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Target is where features are published. A call may take as long as its context.
type Target interface {
	// Current is what is published there now, of our features alone; false if it
	// must be written anew though it is the same.
	Current(ctx context.Context) (values map[string]string, fresh bool, err error)
	// Put replaces what is published, and returns it as it then is. Problems are
	// sentences about what could not be done in part.
	Put(ctx context.Context, values map[string]string) (published map[string]string, problems []string, err error)
	// Explain makes a sentence of an error, for the operator.
	Explain(err error) string
	// Interval is how often what is published must be looked at though nothing
	// changes; 0 for never.
	Interval() time.Duration
	// String says what and where it is.
	String() string
}

// Options are the settings of a Publisher. Target is required.
type Options struct {
	Target Target
	// Log is where the publisher logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the publisher's intervals. The zero value is right for a node.
type Timing struct {
	// Spread is how long the first look may wait, so that the agents of a cluster
	// don't come all at once. It is random up to that. Default 10s.
	Spread time.Duration
	// Gap is the least time between two writes, half of it more at random. Default
	// 10s.
	Gap time.Duration
	// Backoff is the pause after the first failure; it doubles up to BackoffLimit,
	// and half of it more is random. Defaults 1s and 5m.
	Backoff, BackoffLimit time.Duration
	// Deadline bounds one look and one write. Default 15s.
	Deadline time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Spread = cmp.Or(t.Spread, 10*time.Second)
	t.Gap = cmp.Or(t.Gap, 10*time.Second)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, 5*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 15*time.Second)
	return t
}

// jitter is the random part of every pause.
const jitter = 0.5

// Publisher keeps a target as the newest features are. Its methods are safe for
// concurrent use, also those of a nil Publisher, which publishes nothing.
type Publisher struct {
	opts  Options
	log   *slog.Logger
	dirty chan struct{}

	mu  sync.Mutex
	set *Set // the newest; nil before the first
	// settled is the set that was published last; nil if that failed since.
	settled *Set
	// seen are the labels of the Node as last seen; nil if nobody watches them.
	seen map[string]string
	// state is what is known of the target.
	state State
	// wanted are the names that were to be published last.
	wanted map[string]string
}

// State is what was published, and what is wrong with it.
type State struct {
	// Target says what and where it is.
	Target string
	// Published are the features that are there, of those that were put; nil before
	// the first success.
	Published map[string]string
	// At is when they were last written or found to be right.
	At time.Time
	// Problems are sentences for the operator.
	Problems []string
}

// New makes a Publisher; Run publishes.
func New(opts Options) *Publisher {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{opts: opts, log: opts.Log, dirty: make(chan struct{}, 1), state: State{Target: opts.Target.String()}}
}

// Publish takes the newest features. It never waits.
func (p *Publisher) Publish(set *Set) {
	if p == nil {
		return
	}
	p.mu.Lock()
	before := p.set
	if before != nil && maps.Equal(before.Values, set.Values) && slices.Equal(before.Pending, set.Pending) && slices.Equal(before.Problems, set.Problems) {
		p.mu.Unlock()
		return
	}
	p.set = set
	p.mu.Unlock()
	for _, problem := range set.Problems {
		if before == nil || !slices.Contains(before.Problems, problem) {
			p.log.Warn("problem with a feature", "backend", problem.Backend, "message", problem.Message)
		}
	}
	p.poke()
}

// Seen takes the labels of the Node as they are now, so that features which
// somebody else changed or took away come back. They must not be changed after.
func (p *Publisher) Seen(labels map[string]string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = labels
	if p.undone() {
		p.poke()
	}
}

// undone reports whether the labels last seen are not those published last, with
// the lock held. That may be because they were seen before.
func (p *Publisher) undone() bool {
	for name := range p.wanted {
		is, there := p.seen[name]
		was, expected := p.state.Published[name]
		if is != was || there != expected {
			return p.seen != nil
		}
	}
	return false
}

// State is what was published, and what is wrong; with the problems of the newest
// features themselves apart.
func (p *Publisher) State() (State, []Problem) {
	if p == nil {
		return State{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.state
	if p.set == nil {
		return state, nil
	}
	return state, p.set.Problems
}

// poke asks for another look; one pending is enough.
func (p *Publisher) poke() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends. It takes nothing back then.
func (p *Publisher) Run(ctx context.Context) error {
	pause(ctx, rand.N(p.opts.Timing.Spread))
	retry := p.backoff()
	for p.await(ctx) {
		wrote, err := p.publish(ctx)
		if err != nil {
			pause(ctx, retry.Step())
			p.poke()
			continue
		}
		retry = p.backoff()
		if wrote {
			pause(ctx, wait.Jitter(p.opts.Timing.Gap, jitter))
		}
	}
	return nil
}

func (p *Publisher) backoff() wait.Backoff {
	t := p.opts.Timing
	return wait.Backoff{Duration: t.Backoff, Cap: t.BackoffLimit, Factor: 2, Jitter: jitter, Steps: 64}
}

// await waits until there is something to look at; false if ctx ended.
func (p *Publisher) await(ctx context.Context) bool {
	var again <-chan time.Time
	if interval := p.opts.Target.Interval(); interval > 0 {
		timer := time.NewTimer(interval)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-p.dirty:
	case <-again:
	}
	return ctx.Err() == nil
}

// publish makes the target as the newest features are, and says whether it had to
// write.
func (p *Publisher) publish(ctx context.Context) (wrote bool, err error) {
	p.mu.Lock()
	set := p.set
	// What was seen before our own write may have been seen again since.
	done := set == p.settled && p.opts.Target.Interval() == 0 && !p.undone()
	p.mu.Unlock()
	if set == nil || done {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, p.opts.Timing.Deadline)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() == nil {
			p.failed(cmp.Or(limited.Err(), err))
		}
	}()
	current, fresh, err := p.opts.Target.Current(limited)
	if err != nil {
		return false, err
	}
	want := maps.Clone(set.Values)
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if within(name, set.Pending) && len(want) < MaxFeatures {
			want[name] = current[name]
		}
	}
	if fresh && maps.Equal(current, want) {
		p.succeeded(set, want, want, nil)
		return false, nil
	}
	published, problems, err := p.opts.Target.Put(limited, want)
	if err != nil {
		return true, err
	}
	p.succeeded(set, want, published, problems)
	if !maps.Equal(current, want) {
		p.log.Info("features published", "where", p.opts.Target.String(), "count", len(published))
	}
	return true, nil
}

func (p *Publisher) succeeded(set *Set, want, published map[string]string, problems []string) {
	p.mu.Lock()
	p.settled = set
	before := p.state.Problems
	p.wanted = want
	p.state.Published, p.state.At, p.state.Problems = published, time.Now(), problems
	p.mu.Unlock()
	p.tell(before, problems)
}

func (p *Publisher) failed(err error) {
	problems := []string{p.opts.Target.Explain(err)}
	p.mu.Lock()
	p.settled = nil
	before := p.state.Problems
	p.state.Problems = problems
	p.mu.Unlock()
	p.tell(before, problems)
}

// tell logs sentences that are new.
func (p *Publisher) tell(before, now []string) {
	for _, problem := range now {
		if !slices.Contains(before, problem) {
			p.log.Warn("problem", "message", problem)
		}
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
