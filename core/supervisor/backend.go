package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// unit is one backend: the goroutine that decides which of its processes run.
//
// current is the process whose inventory counts; candidate is on its way to
// take its place, whether that is empty or not; ending are those being stopped.
// All fields but those below the mutex belong to the loop.
type backend struct {
	sup    *Supervisor
	name   string
	log    *slog.Logger
	wake   chan struct{} // one slot: the spec changed, or we close
	events chan any
	done   chan struct{}
	// living counts the processes that are not reaped; for anybody.
	living atomic.Int32

	spec      Spec // the newest
	current   *instance
	candidate *instance
	// ending maps those to whether their process is stuck in the kernel.
	ending map[*instance]bool
	// offered are the settings that current was asked to take last, accepted
	// those of any process of this backend.
	offered, accepted json.RawMessage
	// revision is that of the settings that current goes by, or will soon.
	revision uint64
	// announced says that the sink heard Started, and not Lost since.
	announced bool
	breaker   breaker
	// pause is the state while nothing runs and nothing starts; retryAt its end.
	pause   State
	retryAt time.Time
	// seen is the program file at the last try.
	seen mark
	// starts counts processes.
	starts int

	// What status is made of.
	stage       State // the candidate's
	description inventory.Description
	protocol    int
	didFail     bool  // the newest spec, since it is
	refused     error // the newest settings
	schema      error // why the schema could not be used
	lastError   string
	lastErrorAt time.Time

	mu      sync.Mutex
	want    *Spec // nil: remove it
	closing bool
	serving *instance
	public  Status
	// crashes are the times when processes of this specification failed, within
	// Timing.Window.
	crashes []time.Time
}

func newBackend(s *Supervisor, name string) *backend {
	return &backend{
		sup: s, name: name, log: s.log.With("backend", name),
		wake: make(chan struct{}, 1), events: make(chan any), done: make(chan struct{}),
		ending: map[*instance]bool{}, breaker: breaker{timing: &s.timing},
		pause:  Checking,
		public: Status{Name: name, State: Checking, Since: time.Now()},
	}
}

// post hands an event to the loop.
func (b *backend) post(event any) {
	select {
	case b.events <- event:
	case <-b.done:
	}
}

// demand sets what the unit is to run. It does not block.
func (b *backend) demand(want *Spec, closing bool) {
	b.mu.Lock()
	if want == nil || b.want == nil || !sameSpec(*want, *b.want) {
		// Whoever asks right after Apply must not be told of the earlier spec.
		b.public.Applied, b.public.Failed = false, false
	}
	b.want, b.closing = want, b.closing || closing
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run is the unit's goroutine.
func (b *backend) run() {
	defer close(b.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		b.mu.Lock()
		want, closing := b.want, b.closing
		b.mu.Unlock()
		switch {
		case closing:
			if b.stopAll(ErrClosed) {
				return
			}
		case want == nil:
			if b.stopAll(ErrRemoved) && b.sup.forget(b) {
				return
			}
		default:
			b.reconcile(*want)
		}
		b.publish()
		timer.Reset(b.nextLook())
		select {
		case <-b.wake:
		case event := <-b.events:
			b.handle(event)
		case <-timer.C:
			b.lookAtProgram()
		}
	}
}

// stopped waits for the unit's end, not longer than until over is closed, and reports
// whether it came. What is left in ending then does not die.
func (b *backend) stopped(over <-chan struct{}) bool {
	select {
	case <-b.done:
		return true
	case <-over:
	}
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// stopAll stops every process and reports whether all are gone; one that hangs
// in the kernel is not waited for.
func (b *backend) stopAll(reason error) bool {
	b.lose(reason)
	if b.candidate != nil {
		b.drop(b.candidate, reason)
		b.candidate = nil
	}
	b.spec, b.accepted = Spec{}, nil
	for i, stuck := range b.ending {
		i.cancel(reason) // also one that is finishing its calls
		if !stuck {
			return false
		}
	}
	return true
}

// lose ends the current process and tells the sink.
func (b *backend) lose(reason error) {
	if b.current != nil {
		b.drop(b.current, reason)
		b.serve(nil)
		for i := range b.ending {
			i.cancel(reason) // nothing to finish beside a dead successor
		}
	}
	if b.announced {
		b.announced = false
		b.sup.sink.Lost(b.name, reason)
	}
}

func (b *backend) drop(i *instance, reason error) {
	b.ending[i] = false
	i.cancel(reason)
}

func (b *backend) serve(i *instance) {
	b.current = i
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = i
}

// reconcile brings what runs closer to the spec.
func (b *backend) reconcile(spec Spec) {
	if !sameSpec(spec, b.spec) {
		b.spec = spec
		b.retryAt = time.Time{}
		b.breaker.reset()
		b.forgetCrashes()
		b.didFail, b.refused = false, nil
	}
	if b.candidate != nil && !sameSpec(b.candidate.spec, spec) {
		b.drop(b.candidate, errReplaced)
		b.candidate = nil
	}
	if b.current != nil && sameProcess(b.current.spec, spec) {
		if b.candidate != nil {
			b.drop(b.candidate, errReplaced)
			b.candidate = nil
		}
		b.offer(spec.Settings)
		return
	}
	if b.candidate == nil && !b.blocked() && !time.Now().Before(b.retryAt) {
		b.start()
	}
}

// offer hands changed settings to the running process.
func (b *backend) offer(settings json.RawMessage) {
	if bytes.Equal(b.offered, settings) {
		return
	}
	b.offered = settings
	select {
	case <-b.current.offers: // one that was not taken up yet
	default:
	}
	b.current.offers <- settings // its one slot is free, and only we fill it
}

// blocked reports whether an earlier process stands in the way: one that is
// being stopped, unless it only finishes calls beside its successor.
func (b *backend) blocked() bool {
	for i, stuck := range b.ending {
		if stuck || b.current == nil || i.ctx.Err() != nil {
			return true
		}
	}
	return false
}

func (b *backend) start() {
	b.pause, b.retryAt = "", time.Time{}
	b.seen = markOf(filepath.Join(b.sup.backendDir, b.spec.Command))
	b.starts++
	i := &instance{
		backend: b, timing: &b.sup.timing, spec: b.spec, log: b.log,
		offers: make(chan json.RawMessage, 1),
	}
	if b.current == nil && b.accepted != nil && !bytes.Equal(b.accepted, b.spec.Settings) {
		i.fallback = b.accepted
	}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	b.candidate = i
	b.stage = Checking
	go i.run()
}

// nextLook is when the loop must look again though nothing happened. If an earlier
// process is in the way, its end will wake it.
func (b *backend) nextLook() time.Duration {
	const idle = time.Hour
	if b.candidate != nil || b.current != nil && sameProcess(b.current.spec, b.spec) || b.retryAt.IsZero() || b.blocked() {
		return idle
	}
	return max(0, min(time.Until(b.retryAt), b.sup.timing.ProgramPoll))
}

// lookAtProgram ends a pause if the program file is another one than before.
func (b *backend) lookAtProgram() {
	if b.retryAt.IsZero() || b.spec.Command == "" || b.candidate != nil {
		return
	}
	if markOf(filepath.Join(b.sup.backendDir, b.spec.Command)) != b.seen {
		b.breaker.reset()
		b.forgetCrashes()
		b.retryAt = time.Now()
	}
}

// sameProcess reports whether a running process of one spec can serve the other.
func sameProcess(a, b Spec) bool {
	return a.Command == b.Command && a.Checksum == b.Checksum && a.Heartbeat == b.Heartbeat && maps.Equal(a.Env, b.Env)
}

func sameSpec(a, b Spec) bool {
	return sameProcess(a, b) && bytes.Equal(a.Settings, b.Settings)
}
