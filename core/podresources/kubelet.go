package podresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/wake"
)

// Options of [New]. Socket is required.
type Options struct {
	// Socket is kubelet's pod-resources socket, usually
	// /var/lib/kubelet/pod-resources/kubelet.sock. It need not exist.
	Socket string
	// Checkpoint is the file in which kubelet's device manager stores its allocations,
	// usually /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint; "" for none.
	// Rewrite, if set, makes kubelet write it soon, by sending the list of devices again; it
	// must not block.
	Checkpoint string
	Rewrite    func()
	// Interval is how often kubelet's pods are listed. Default 10 s.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Timing is for tests; the zero value is right.
	Timing Timing
	// Lister, if set, takes the place of the API, in tests.
	Lister Lister
}

// Timing are the other intervals. Zero means the default.
type Timing struct {
	// Grace is the minimum age of an owner that a single list may end; two lists end it
	// at any age. Default 30 s.
	Grace time.Duration
	// Unseen is the same for an owner that was never listed, which may be an
	// init container, if kubelet's checkpoint does not end it. Default 30 min.
	Unseen time.Duration
	// Settle is how long kubelet must have been up before its list may end an
	// owner; ten times that if it lists no pod at all. Default 30 s.
	Settle time.Duration
	// Quiet is how long a kubelet that has just started gets no List call: one at that
	// moment can make it forget allocations. Default 10 s.
	Quiet time.Duration
	// Timeout is the deadline of one List call. Default 5 s.
	Timeout time.Duration
	// Confirm is the time from an allocation to a list, so that a short-lived pod is listed
	// too, and between the two lists that end an owner that was listed before.
	// Default 1 s.
	Confirm time.Duration
	// Spacing is the least time between two calls: kubelet serves 100 a second to
	// all its clients together. Default 200 ms.
	Spacing time.Duration
	// RetryMin and RetryMax bound the pause after a failed call, which
	// doubles with each failure. Defaults 1 s and 1 min.
	RetryMin, RetryMax time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Grace = cmp.Or(t.Grace, 30*time.Second)
	t.Unseen = max(cmp.Or(t.Unseen, 30*time.Minute), t.Grace)
	t.Settle = cmp.Or(t.Settle, 30*time.Second)
	t.Quiet = cmp.Or(t.Quiet, 10*time.Second)
	t.Timeout = cmp.Or(t.Timeout, 5*time.Second)
	t.Confirm = cmp.Or(t.Confirm, time.Second)
	t.Spacing = cmp.Or(t.Spacing, 200*time.Millisecond)
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, time.Minute)
	return t
}

// Lister calls kubelet's pod-resources API.
type Lister interface {
	// List lists the active pods. One call at a time.
	List(ctx context.Context, now func() time.Time) (List, error)
	// Get returns one of them. Kubelets before 1.36 may refuse it.
	Get(ctx context.Context, namespace, pod string) (*podresourcesv1.PodResources, error)
	// Allocatable returns the devices that kubelet may allocate.
	Allocatable(ctx context.Context) ([]*podresourcesv1.ContainerDevices, error)
}

// Kubelet is what kubelet says of its pods. Its methods are safe for concurrent use. All but Soon and Notes wait for kubelet.
type Kubelet struct {
	opts   Options
	log    *slog.Logger
	lister Lister
	apply  func(List)
	// soon: list when kubelet has had the time to record an allocation.
	soon chan struct{}
	// listing is held by the one List call. It guards latest, which is shared with waiting
	// callers. waiting counts the callers that list or wait.
	listing chan struct{} // 1 slot
	latest  *List
	waiting atomic.Int32

	// mu guards problem, which is why kubelet cannot be asked; "" if it can.
	mu      sync.Mutex
	problem string
}

// New returns a Kubelet. Until Run runs, its pods are listed only for callers.
func New(opts Options) *Kubelet {
	opts.Interval = cmp.Or(opts.Interval, 10*time.Second)
	opts.Timing = opts.Timing.withDefaults()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	k := &Kubelet{opts: opts, log: opts.Log, lister: opts.Lister, apply: func(List) {}, soon: make(chan struct{}, 1), listing: make(chan struct{}, 1)}
	if k.lister == nil {
		k.lister = &client{socket: opts.Socket, quiet: opts.Timing.Quiet}
	}
	return k
}

// Follow has apply called with every list, one at a time, before a caller gets it. Call it before anything else. apply must not
// ask kubelet.
func (k *Kubelet) Follow(apply func(List)) { k.apply = apply }

// Soon has the pods listed soon: an allocation was made, or has to be confirmed. It does not block.
func (k *Kubelet) Soon() { wake.Send(k.soon) }

// Notes returns the problems that an operator must know.
func (k *Kubelet) Notes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem == "" {
		return nil
	}
	return []string{k.problem}
}

func (k *Kubelet) note(problem string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = problem
}

// Run lists kubelet's pods until ctx ends, and returns nil. Only one Run may be in progress.
func (k *Kubelet) Run(ctx context.Context) error {
	failures := 0
	for {
		pause := k.opts.Interval
		var starting *startingError
		if err := k.Poll(ctx); err == nil {
			failures = 0
		} else if errors.As(err, &starting) {
			pause = starting.left
		} else if ctx.Err() == nil {
			failures++
			pause = backoff.After(failures, k.opts.Timing.RetryMin, k.opts.Timing.RetryMax)
			k.log.Debug("list pod resources", "error", err, "retry", pause)
		}
		// At a distance from the last call, even if one is wanted soon.
		if !backoff.Sleep(ctx, k.opts.Timing.Spacing) || !k.idle(ctx, max(pause-k.opts.Timing.Spacing, 0)) {
			return nil
		}
	}
}

// idle waits until the next list is due; false if ctx ended.
func (k *Kubelet) idle(ctx context.Context, pause time.Duration) bool {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
			return true
		case <-k.soon:
			// Further allocations do not delay it.
			if confirm := k.opts.Timing.Confirm; confirm < pause {
				return backoff.Sleep(ctx, confirm)
			}
		}
	}
}

// fresh returns a list that began after the call, and applies it. Of several
// callers at the same time most share one: kubelet serves 100 calls a second at most.
func (k *Kubelet) fresh(ctx context.Context) (List, error) {
	called := k.opts.Now()
	k.waiting.Add(1)
	select {
	case k.listing <- struct{}{}:
	case <-ctx.Done():
		k.waiting.Add(-1)
		return List{}, fmt.Errorf("list pod resources: %w", context.Cause(ctx))
	}
	defer func() {
		if k.waiting.Add(-1) == 0 {
			k.latest = nil // no caller is left to share it
		}
		<-k.listing
	}()
	if l := k.latest; l != nil && !l.Began.Before(called) {
		return *l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timing.Timeout)
	defer cancel()
	l, err := k.lister.List(ctx, k.opts.Now)
	if err != nil {
		k.latest = nil
		return List{}, err
	}
	l.timing = k.opts.Timing
	k.apply(l)
	k.latest = &l
	return l, nil
}

// Poll lists kubelet's pods once. It is not an error to be reported if kubelet has just started.
func (k *Kubelet) Poll(ctx context.Context) error {
	_, err := k.fresh(ctx)
	var starting *startingError
	if errors.As(err, &starting) {
		return err // not a problem
	}
	if err != nil {
		k.note(fmt.Sprintf("holders: %v; allocated devices stay allocated until kubelet answers", err))
		return err
	}
	k.note("")
	return nil
}
