package profile

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/accelmux/accelmux/core/cordon"
)

// WatcherOptions are the settings of a Watcher. Nodes, Node and Memory are required.
type WatcherOptions struct {
	// Nodes lists and watches the metadata of the agent's own Node;
	// kubeapi.Client.NodeMetadata makes one.
	Nodes *cache.ListWatch
	// Node is the Node's name.
	Node string
	// Memory has the labels that an earlier run saw, and stores those that this one sees.
	Memory *Memory
	// Labels is called with new labels, which never change; nil is allowed. It must not call the Watcher.
	Labels func(map[string]string)
	// Cordoned is called after the cordoned devices, or the problem with their annotation, changed; nil is allowed.
	Cordoned func()
	// Log is where the watcher logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the watcher's intervals. The zero value is right for a node.
type Timing struct {
	// Start is how long the first request may wait where no labels are stored, which
	// delays the node's profile. It is random up to that. Default 1s.
	Start time.Duration
	// Spread is how long the first request may wait where labels are stored, so that
	// the agents of a cluster do not all ask at once after an upgrade. It is random up
	// to that. Default 10s.
	Spread time.Duration
	// Backoff is the pause after the first failure; it doubles up to BackoffLimit,
	// package backoff has its jitter. Defaults 5s and 40s.
	Backoff, BackoffLimit time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Start = cmp.Or(t.Start, time.Second)
	t.Spread = cmp.Or(t.Spread, 10*time.Second)
	t.Backoff = cmp.Or(t.Backoff, 5*time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, 40*time.Second)
	return t
}

// Watcher knows the labels of the agent's own Node, and which devices are cordoned there. Its methods are safe for
// concurrent use, also those of a nil Watcher, which knows nothing.
type Watcher struct {
	opts    WatcherOptions
	log     *slog.Logger
	changed chan struct{}

	mu sync.Mutex
	// seen are the labels last seen, by an earlier run perhaps, and the annotations after
	// config.AnnotationPrefix; nil: never. The map itself never changes.
	seen map[string]string
	// cordoned is the value of the annotation [cordon.Annotation] that was valid last, and invalid why the present
	// one is not; "" if it is.
	cordoned, invalid string
	// uid is the Node's as last seen; "" before.
	uid types.UID
	// failure is why the Node is not watched; the zero value if it is.
	failure trouble
	// answered: a watch has begun since the start. absent: there is no such Node.
	answered, absent bool
}

// NewWatcher returns a Watcher that knows the labels in the Memory; Run watches.
func NewWatcher(opts WatcherOptions) *Watcher {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Labels == nil {
		opts.Labels = func(map[string]string) {}
	}
	if opts.Cordoned == nil {
		opts.Cordoned = func() {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{opts: opts, log: opts.Log, changed: make(chan struct{}, 1), seen: opts.Memory.Labels(), cordoned: opts.Memory.Cordoned()}
}

// Labels are the node's labels as last seen, and the annotations that
// config.NodeSelector.Matches takes; nil if they are not known. They must not be changed.
func (w *Watcher) Labels() map[string]string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// UID returns the Node's as last seen; "" if that is not known.
func (w *Watcher) UID() types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uid
}

// Cordoned returns the devices that no new pod gets, as last seen.
func (w *Watcher) Cordoned() []cordon.Entry {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entries, err := cordon.Parse(w.cordoned)
	if err != nil {
		return nil // not of a value that was accepted
	}
	return entries
}

// CordonProblem is what is wrong with the annotation of cordoned devices; "" if nothing is.
func (w *Watcher) CordonProblem() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.invalid
}

// Changed is ready after the labels changed. A reader that was slow finds only
// the newest.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Watching reports whether the Node exists and its labels are watched. They count as
// watched between the end of a watch and the answer to the next request.
func (w *Watcher) Watching() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered && w.problem().kind == ""
}

// Problem is that with the API server and the Node; "" if there is none.
func (w *Watcher) Problem() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem().text
}
