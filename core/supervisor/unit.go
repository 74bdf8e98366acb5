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
type unit struct {
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

func newUnit(s *Supervisor, name string) *unit {
	return &unit{
		sup: s, name: name, log: s.log.With("backend", name),
		wake: make(chan struct{}, 1), events: make(chan any), done: make(chan struct{}),
		ending: map[*instance]bool{}, breaker: breaker{timing: &s.timing},
		pause:  Checking,
		public: Status{Name: name, State: Checking, Since: time.Now()},
	}
}

// post hands an event to the loop.
func (u *unit) post(event any) {
	select {
	case u.events <- event:
	case <-u.done:
	}
}

// demand sets what the unit is to run. It does not block.
func (u *unit) demand(want *Spec, closing bool) {
	u.mu.Lock()
	if want == nil || u.want == nil || !sameSpec(*want, *u.want) {
		// Whoever asks right after Apply must not be told of the earlier spec.
		u.public.Settled, u.public.Failed = false, false
	}
	u.want, u.closing = want, u.closing || closing
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run is the unit's goroutine.
func (u *unit) run() {
	defer close(u.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		u.mu.Lock()
		want, closing := u.want, u.closing
		u.mu.Unlock()
		switch {
		case closing:
			if u.stopAll(ErrClosed) {
				return
			}
		case want == nil:
			if u.stopAll(ErrRemoved) && u.sup.forget(u) {
				return
			}
		default:
			u.reconcile(*want)
		}
		u.publish()
		timer.Reset(u.nextLook())
		select {
		case <-u.wake:
		case event := <-u.events:
			u.handle(event)
		case <-timer.C:
			u.lookAtProgram()
		}
	}
}

// stopped waits for the unit's end, not longer than until over is closed, and reports
// whether it came. What is left in ending then does not die.
func (u *unit) stopped(over <-chan struct{}) bool {
	select {
	case <-u.done:
		return true
	case <-over:
	}
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// stopAll stops every process and reports whether all are gone; one that hangs
// in the kernel is not waited for.
func (u *unit) stopAll(reason error) bool {
	u.lose(reason)
	if u.candidate != nil {
		u.drop(u.candidate, reason)
		u.candidate = nil
	}
	u.spec, u.accepted = Spec{}, nil
	for i, stuck := range u.ending {
		i.cancel(reason) // also one that is finishing its calls
		if !stuck {
			return false
		}
	}
	return true
}

// lose ends the current process and tells the sink.
func (u *unit) lose(reason error) {
	if u.current != nil {
		u.drop(u.current, reason)
		u.serve(nil)
		for i := range u.ending {
			i.cancel(reason) // nothing to finish beside a dead successor
		}
	}
	if u.announced {
		u.announced = false
		u.sup.sink.Lost(u.name, reason)
	}
}

func (u *unit) drop(i *instance, reason error) {
	u.ending[i] = false
	i.cancel(reason)
}

func (u *unit) serve(i *instance) {
	u.current = i
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serving = i
}

// reconcile brings what runs closer to the spec.
func (u *unit) reconcile(spec Spec) {
	if !sameSpec(spec, u.spec) {
		u.spec = spec
		u.retryAt = time.Time{}
		u.breaker.reset()
		u.forgetCrashes()
		u.didFail, u.refused = false, nil
	}
	if u.candidate != nil && !sameSpec(u.candidate.spec, spec) {
		u.drop(u.candidate, errReplaced)
		u.candidate = nil
	}
	if u.current != nil && sameProcess(u.current.spec, spec) {
		if u.candidate != nil {
			u.drop(u.candidate, errReplaced)
			u.candidate = nil
		}
		u.offer(spec.Settings)
		return
	}
	if u.candidate == nil && !u.blocked() && !time.Now().Before(u.retryAt) {
		u.start()
	}
}

// offer hands changed settings to the running process.
func (u *unit) offer(settings json.RawMessage) {
	if bytes.Equal(u.offered, settings) {
		return
	}
	u.offered = settings
	select {
	case <-u.current.offers: // one that was not taken up yet
	default:
	}
	u.current.offers <- settings // its one slot is free, and only we fill it
}

// blocked reports whether an earlier process stands in the way: one that is
// being stopped, unless it only finishes calls beside its successor.
func (u *unit) blocked() bool {
	for i, stuck := range u.ending {
		if stuck || u.current == nil || i.ctx.Err() != nil {
			return true
		}
	}
	return false
}

func (u *unit) start() {
	u.pause, u.retryAt = "", time.Time{}
	u.seen = markOf(filepath.Join(u.sup.backendDir, u.spec.Command))
	u.starts++
	i := &instance{
		unit: u, timing: &u.sup.timing, spec: u.spec, log: u.log,
		offers: make(chan json.RawMessage, 1),
	}
	if u.current == nil && u.accepted != nil && !bytes.Equal(u.accepted, u.spec.Settings) {
		i.fallback = u.accepted
	}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	u.candidate = i
	u.stage = Checking
	go i.run()
}

// nextLook is when the loop must look again though nothing happened. If an earlier
// process is in the way, its end will wake it.
func (u *unit) nextLook() time.Duration {
	const idle = time.Hour
	if u.candidate != nil || u.current != nil && sameProcess(u.current.spec, u.spec) || u.retryAt.IsZero() || u.blocked() {
		return idle
	}
	return max(0, min(time.Until(u.retryAt), u.sup.timing.ProgramPoll))
}

// lookAtProgram ends a pause if the program file is another one than before.
func (u *unit) lookAtProgram() {
	if u.retryAt.IsZero() || u.spec.Command == "" || u.candidate != nil {
		return
	}
	if markOf(filepath.Join(u.sup.backendDir, u.spec.Command)) != u.seen {
		u.breaker.reset()
		u.forgetCrashes()
		u.retryAt = time.Now()
	}
}

// sameProcess reports whether a running process of one spec can serve the other.
func sameProcess(a, b Spec) bool {
	return a.Command == b.Command && a.Checksum == b.Checksum && a.Heartbeat == b.Heartbeat && maps.Equal(a.Env, b.Env)
}

func sameSpec(a, b Spec) bool {
	return sameProcess(a, b) && bytes.Equal(a.Settings, b.Settings)
}
