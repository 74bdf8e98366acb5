package injection

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/accelmux/accelmux/core/kubeapi"
)

// Nodes is what the watcher asks the API server. core/kubeapi implements it and
// documents it.
type Nodes interface {
	NodeSoftware(ctx context.Context, name string) (kubelet, runtime string, err error)
}

// Options are the settings of a Watcher. Nodes and Node are required.
type Options struct {
	Nodes Nodes
	// Node is the name of the agent's own Node.
	Node string
	// Log is where the watcher logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the watcher's intervals; zero ones are right for a node. All are random,
// from half of them up to one and a half times.
type Timing struct {
	// Start is before the first request, so that not all agents of a cluster ask at
	// once. Default 3s.
	Start time.Duration
	// Settle is how long after kubelet's start the Node is read again, and once more
	// after three times that: kubelet writes its release there some time after it
	// takes registrations. Default 15s.
	Settle time.Duration
	// Interval is how often the Node is read without a reason: a container runtime is
	// upgraded without a word to anybody. Default 1h.
	Interval time.Duration
	// Backoff is the pause after the first failure; it doubles up to BackoffLimit.
	// Defaults 1s and 5m.
	Backoff, BackoffLimit time.Duration
	// Deadline bounds a request. Default 15s.
	Deadline time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Start = cmp.Or(t.Start, 3*time.Second)
	t.Settle = cmp.Or(t.Settle, 15*time.Second)
	t.Interval = cmp.Or(t.Interval, time.Hour)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, 5*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 15*time.Second)
	return t
}

// Watcher knows the software of the agent's own node. Its methods are safe for
// concurrent use, also those of a nil Watcher, which has nobody to ask.
type Watcher struct {
	opts    Options
	log     *slog.Logger
	wanted  chan struct{}
	came    chan struct{}
	changed chan struct{}
	once    sync.Once

	mu     sync.Mutex
	choice Choice
	known  bool
}

// New makes a watcher; Run watches. It asks nobody before Choice is called.
func New(opts Options) *Watcher {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		opts: opts, log: opts.Log, choice: Choose(Software{}, "the Node was not read yet"),
		wanted: make(chan struct{}), came: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// Choice is what is chosen now. It is of no consequence for what containers were
// given before.
func (w *Watcher) Choice() Choice {
	if w == nil {
		return Choose(Software{}, "there is no API server to read the Node from")
	}
	w.once.Do(func() { close(w.wanted) })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.choice
}

// Changed is ready after the choice changed. A reader that was slow finds only the
// newest.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// KubeletCame says that kubelet was started, perhaps another release of it. It does
// not block.
func (w *Watcher) KubeletCame() {
	if w != nil {
		signal(w.came)
	}
}

// Run reads the Node when it is time to, until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	select {
	case <-w.wanted:
	case <-ctx.Done():
		return nil
	}
	t := w.opts.Timing
	backoff := t.Backoff
	// again says that the Node is to be read once more, a while after kubelet came.
	tried, again := false, false
	timer := time.NewTimer(about(t.Start))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.came:
			again = true
			if tried {
				timer.Reset(about(t.Settle))
			}
			continue
		case <-timer.C:
		}
		tried = true
		wait := t.Interval
		switch err := w.read(ctx); {
		case err != nil:
			wait, backoff = backoff, min(2*backoff, t.BackoffLimit)
		case again:
			wait, again, backoff = 3*t.Settle, false, t.Backoff
		default:
			backoff = t.Backoff
		}
		timer.Reset(about(wait))
	}
}

// read reads the Node and chooses. After a failure what was chosen by an earlier
// reading stays.
func (w *Watcher) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.Timing.Deadline)
	defer cancel()
	kubelet, runtime, err := w.opts.Nodes.NodeSoftware(ctx, w.opts.Node)
	next := Choose(Software{Kubelet: kubelet, Runtime: runtime}, "the Node does not say it")
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.known {
			return err
		}
		next = Choose(Software{}, diagnose(err))
	}
	w.known = w.known || err == nil
	if next == w.choice {
		return err
	}
	before := w.choice
	w.choice = next
	signal(w.changed)
	if next.Injection != before.Injection {
		w.log.Info("injection chosen for resources with auto", "injection", next.Injection, "reason", next.Reason)
	}
	return err
}

// diagnose says as a clause why the Node cannot be read.
func diagnose(err error) string {
	forbidden, isForbidden := kubeapi.Forbidden(err, "watch", "nodes", "")
	switch {
	case isForbidden:
		return "the Node can't be read: " + forbidden
	case apierrors.IsNotFound(err):
		return "the cluster has no Node of this name"
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server does not answer"
	}
	return "the Node can't be read: " + err.Error()
}

// about is d or thereabouts.
func about(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

// signal makes a channel of one slot ready.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is
	}
}
