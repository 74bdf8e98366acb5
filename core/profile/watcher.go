package profile

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// Nodes is what the watcher asks the API server. core/kubeapi implements it and
// documents it.
type Nodes interface {
	WatchNode(ctx context.Context, name, version string, lifetime time.Duration) (watch.Interface, error)
}

// Options are the settings of a Watcher. Nodes, Node and Path are required.
type Options struct {
	Nodes Nodes
	// Node is the name of the agent's own Node.
	Node string
	// Path is the state file.
	Path string
	// Disk writes the state file; tests make it fail.
	Disk checkpoint.Writer
	// Log is where the watcher logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the watcher's intervals. The zero value is right for a node.
type Timing struct {
	// Start is how long the first request may wait where no labels are remembered,
	// which keeps the node from its profile. It is random up to that. Default 1s.
	Start time.Duration
	// Spread is how long the first request may wait where labels are remembered,
	// and the one after a watch that was lost, so that the agents of a cluster do
	// not come all at once after an upgrade of theirs or a restart of the API
	// server. It is random up to that. Default 10s.
	Spread time.Duration
	// Backoff is the pause after the first failure; it doubles up to
	// BackoffLimit, and half of it is random. Defaults 1s and 1m.
	Backoff, BackoffLimit time.Duration
	// Lifetime is how long a watch lasts before it is made anew: that is when
	// rights that were taken away are missed. Random, up to twice that. Default 5m.
	Lifetime time.Duration
	// Deadline bounds a request until it is answered. Default 15s.
	Deadline time.Duration
	// Silence is how long a watch from the beginning may say nothing before there
	// is no such Node. Default 5s.
	Silence time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Start = cmp.Or(t.Start, time.Second)
	t.Spread = cmp.Or(t.Spread, 10*time.Second)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, time.Minute)
	t.Lifetime = cmp.Or(t.Lifetime, 5*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 15*time.Second)
	t.Silence = cmp.Or(t.Silence, 5*time.Second)
	return t
}

// Watcher knows the labels of the agent's own Node. Its methods are safe for
// concurrent use, also those of a nil Watcher, which knows nothing.
type Watcher struct {
	opts    Options
	log     *slog.Logger
	changed chan struct{}
	dirty   chan struct{}

	mu sync.Mutex
	// seen are the labels last seen, by an earlier run perhaps; nil: never. The
	// map itself never changes.
	seen    map[string]string
	profile string
	problem trouble
	// watching says that a watch runs and the server has the Node.
	watching bool
	// fileNote is what is wrong with the state file; "" if nothing.
	fileNote string
}

// Open reads what an earlier run remembered; Run watches. A damaged state file is
// moved aside and noted, never an error.
func Open(opts Options) *Watcher {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{opts: opts, log: opts.Log, changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1)}
	w.recall()
	return w
}

// Labels are the node's labels as last seen; nil if they are not known. They must
// not be changed.
func (w *Watcher) Labels() map[string]string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// Changed is ready after the labels changed. A reader that was slow finds only
// the newest.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Watching reports whether the labels are watched now, so that a change of them
// is seen at once. Between two watches they count as watched.
func (w *Watcher) Watching() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watching
}

// Last is the profile that ran last, as Remember was told; "" if none did.
func (w *Watcher) Last() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.profile
}

// Remember notes which profile runs. It does not wait for the disk.
func (w *Watcher) Remember(profile string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.profile != profile {
		w.profile = profile
		signal(w.dirty)
	}
}

// Notes are sentences about what is wrong: with the way to the API server, the
// Node, the state file.
func (w *Watcher) Notes() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var notes []string
	for _, note := range []string{w.problem.text, w.fileNote} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// take takes in the labels of the Node as the server has it now.
func (w *Watcher) take(labels map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen != nil && maps.Equal(w.seen, labels) {
		return
	}
	w.seen = make(map[string]string, len(labels))
	maps.Copy(w.seen, labels)
	signal(w.dirty)
	signal(w.changed)
}

// trouble notes what is wrong with the watch, or that nothing is, and logs it
// when it is another kind.
func (w *Watcher) trouble(now trouble) {
	w.mu.Lock()
	before := w.problem
	if now.text != "" && w.seen != nil {
		now.text += "; the labels last seen still count"
	}
	w.problem = now
	w.watching = now.kind == ""
	w.mu.Unlock()
	switch now.kind {
	case before.kind:
	case "":
		w.log.Info("the node's labels are watched again", "node", w.opts.Node)
	default:
		w.log.Warn("problem", "node", w.opts.Node, "message", now.text)
	}
}

// failing reports whether the last watch failed; that there is no such Node is no
// failure of it.
func (w *Watcher) failing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem.kind != "" && w.problem.kind != absent
}

// keep writes the state file whenever there is something new in it.
func (w *Watcher) keep(ctx context.Context) {
	retry := newBackoff(w.opts.Timing)
	for {
		select {
		case <-ctx.Done():
			select {
			case <-w.dirty:
				_ = w.save() // the last chance; it has logged
			default:
			}
			return
		case <-w.dirty:
		}
		if err := w.save(); err != nil {
			signal(w.dirty)
			pause(ctx, retry.next())
			continue
		}
		retry.reset()
	}
}

// signal makes a channel of one slot ready.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is
	}
}
