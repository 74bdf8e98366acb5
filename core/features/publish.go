package features

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/wake"
)

// Options are the settings of a Publisher. Dir is required.
type Options struct {
	// Dir is the directory of the feature file; it is created if missing.
	Dir string
	// Disk writes the file; tests replace it.
	Disk checkpoint.Writer
	// Log is where the publisher logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the publisher's intervals. The zero value is right for a node.
type Timing struct {
	// Scan is how often the file is read even if no feature changed: it must be renewed
	// before it expires, and may have been removed. A failed write is tried again at this
	// interval, too. Default 1m.
	Scan time.Duration
	// Gap is the least time between two changes of the file. The first report of a backend does
	// not wait for it. Default 10s.
	Gap time.Duration
}

// Publisher keeps the feature file equal to the newest features. Its methods are safe for
// concurrent use, also those of a nil Publisher, which publishes nothing.
type Publisher struct {
	file   *file
	log    *slog.Logger
	timing Timing
	dirty  chan struct{}
	// reported wakes Run from the pause after a change: a backend has reported for the first time.
	reported chan struct{}
	finder   Finder

	mu    sync.Mutex
	set   *Set // the newest; nil before the first
	state State
}

// State is the state of the feature file.
type State struct {
	// Path is that of the feature file.
	Path string
	// Published are the features in the file; nil before the first success.
	Published map[string]string
	// At is when the file was last written or found correct.
	At time.Time
	// Problem is why the last write failed; "" after a success.
	Problem string
}

// New returns a Publisher; Run publishes.
func New(opts Options) *Publisher {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	f := &file{dir: opts.Dir, disk: opts.Disk}
	return &Publisher{
		file: f, log: opts.Log, dirty: make(chan struct{}, 1), reported: make(chan struct{}, 1), state: State{Path: f.path()},
		timing: Timing{Scan: cmp.Or(opts.Timing.Scan, time.Minute), Gap: cmp.Or(opts.Timing.Gap, 10*time.Second)},
	}
}

// Update publishes the features of a round, and returns when to call it again although nothing
// changes; zero for never. Without a profile in force it publishes nothing, and the features
// of before stay. It is not safe for concurrent use.
func (p *Publisher) Update(r *round.Round, now time.Time) time.Time {
	if p == nil || r.Idle() {
		return time.Time{}
	}
	set, next := p.finder.Find(r.Profile, r.Snapshot, r.Replicas(), now)
	p.Publish(set)
	return next
}

// Publish accepts the newest features. It never waits.
func (p *Publisher) Publish(set *Set) {
	if p == nil {
		return
	}
	p.mu.Lock()
	before := p.set
	p.set = set
	if before != nil && len(set.Pending) < len(before.Pending) {
		wake.Send(p.reported)
	}
	p.mu.Unlock()
	for _, problem := range set.Problems {
		if before == nil || !slices.Contains(before.Problems, problem) {
			p.log.Warn("problem with a feature", "backend", problem.Backend, "message", problem.Message)
		}
	}
	if before == nil || !maps.Equal(before.Values, set.Values) || !slices.Equal(before.Pending, set.Pending) {
		wake.Send(p.dirty)
	}
}

// State returns what was published, and the problems of the newest features.
func (p *Publisher) State() (State, []Problem) {
	if p == nil {
		return State{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		return p.state, nil
	}
	return p.state, p.set.Problems
}

// Run publishes until ctx ends. The file stays afterwards, until its features expire.
func (p *Publisher) Run(ctx context.Context) error {
	scan := time.NewTicker(p.timing.Scan)
	defer scan.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.dirty:
		case <-scan.C:
		}
		if !p.publish() {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.reported:
		case <-time.After(p.timing.Gap):
		}
	}
}

// publish makes the file equal to the newest features, and reports whether it changed them, or
// tried to.
func (p *Publisher) publish() (changed bool) {
	p.mu.Lock()
	set := p.set
	select {
	case <-p.reported: // it is in the set
	default:
	}
	p.mu.Unlock()
	if set == nil {
		return false
	}
	current, renew, err := p.file.read()
	want := maps.Clone(set.Values)
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if within(name, set.Pending) && len(want) < MaxFeatures {
			want[name] = current[name]
		}
	}
	changed = !maps.Equal(current, want)
	if err == nil && (changed || renew) {
		err = p.file.write(want)
	}
	p.finish(want, err)
	if err == nil && changed {
		p.log.Info("features published", "path", p.file.path(), "count", len(want))
	}
	return changed
}

// finish records the result of a scan.
func (p *Publisher) finish(published map[string]string, err error) {
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("cannot publish features for Node Feature Discovery: %v; those published before expire within an hour", err)
	}
	p.mu.Lock()
	before := p.state.Problem
	p.state.Problem = problem
	if err == nil {
		p.state.Published, p.state.At = published, time.Now()
	}
	p.mu.Unlock()
	if problem != "" && problem != before {
		p.log.Warn("problem", "message", problem)
	}
}
