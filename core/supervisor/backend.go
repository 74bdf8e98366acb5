package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/wake"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// backend is one backend: its goroutine decides which of its processes run.
//
// current is the process whose inventory counts, candidate the one that is starting, to
// become the current process, and ending are those that are being stopped. The goroutine
// owns all fields except those below the mutex.
type backend struct {
	sup    *Supervisor
	name   string
	log    *slog.Logger
	wake   chan struct{} // one slot: the spec changed, or the supervisor closes
	events chan any
	done   chan struct{}

	spec      Spec // the newest
	current   *instance
	candidate *instance
	// target is the spec for which the candidate was started, perhaps with earlier settings.
	target Spec
	// ending maps them to whether the process hangs in the kernel.
	ending map[*instance]bool
	// offered are the settings that current was last asked to accept, accepted the latest
	// ones that a process of this backend accepted, or the fallback of the spec.
	offered, accepted json.RawMessage
	// revision is that of the settings that current has accepted.
	revision uint64
	// announced: Sink.Started was called, and not Lost since.
	announced bool
	breaker   breaker
	// pause is the state while no process runs or starts; retryAt is its end.
	pause   State
	retryAt time.Time
	// pauses are those of the manifest that was read last, with checkedDesc, the description for the settings of that start.
	// paused is the pause in force; nil if none is.
	pauses      []manifest.Pause
	checkedDesc inventory.Description
	paused      *PausedError
	// tried are the files of the latest start.
	tried plug.Marks
	// unusable are settings that were refused at a start, so that the next one is with those accepted before.
	unusable json.RawMessage
	// mismatchedSince is when a program and its manifest were first found not to belong together; zero if they do.
	mismatchedSince time.Time
	// starved is how many processes in a row failed as they waited for a processor.
	starved int
	// failedBefore: the latest process ended, or failed to start, by a failure; restarts counts the processes after such ones.
	failedBefore bool
	restarts     int

	// For the status.
	stage       State // the candidate's
	description inventory.Description
	protocol    int
	didFail     bool  // the newest spec
	refused     error // of the newest settings
	lastError   string
	lastErrorAt time.Time

	mu      sync.Mutex
	want    *Spec // nil: remove the backend
	closing bool
	serving *instance
	public  Status
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

// post sends an event to the goroutine.
func (b *backend) post(event any) {
	select {
	case b.events <- event:
	case <-b.done:
	}
}

// demand sets what the backend is to run. It does not block.
func (b *backend) demand(want *Spec, closing bool) {
	b.mu.Lock()
	if want == nil || b.want == nil || !want.Equal(*b.want) {
		// Right after Apply these must not be the earlier spec's.
		b.public.Applied, b.public.Failed = false, false
	}
	b.want, b.closing = want, b.closing || closing
	b.mu.Unlock()
	wake.Send(b.wake)
}

// run is the backend's goroutine.
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
		timer.Reset(b.nextCheck())
		select {
		case <-b.wake:
		case event := <-b.events:
			b.handle(event)
		case <-timer.C:
			b.checkFiles()
		}
	}
}

// stopped waits for the end of the goroutine, at most until ctx ends, and reports whether it
// ended. The instances that are still in ending then hang in the kernel.
func (b *backend) stopped(ctx context.Context) bool {
	select {
	case <-b.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// stopAll stops every process and reports whether all are gone, except those that hang in
// the kernel.
func (b *backend) stopAll(reason error) bool {
	b.lose(reason)
	if b.candidate != nil {
		b.drop(b.candidate, reason)
		b.candidate = nil
	}
	b.spec, b.accepted, b.unusable, b.paused = Spec{}, nil, nil, nil
	for i, stuck := range b.ending {
		i.cancel(reason) // also one that still finishes its calls
		if !stuck {
			return false
		}
	}
	return true
}

// lose ends the current process and notifies the sink.
func (b *backend) lose(reason error) {
	if b.current != nil {
		b.drop(b.current, reason)
		b.serve(nil)
		for i := range b.ending {
			i.cancel(reason) // its successor is gone: it need not finish its calls
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

// reconcile starts, replaces or reconfigures processes according to the spec.
func (b *backend) reconcile(spec Spec) {
	if !spec.Equal(b.spec) {
		b.spec = spec
		b.retryAt = time.Time{}
		b.breaker.reset()
		b.didFail, b.refused, b.unusable, b.mismatchedSince = false, nil, nil, time.Time{}
		if b.current == nil {
			b.pauses, b.paused = nil, nil // the program may be another
		}
	}
	if b.accepted == nil {
		b.accepted = spec.Fallback
	}
	if b.holds() {
		return
	}
	if b.candidate != nil && !b.target.Equal(spec) {
		b.drop(b.candidate, errReplaced)
		b.candidate = nil
	}
	if b.serves(spec) {
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

// holds reports whether a node label pauses the backend. The process may finish its calls, and gets no new ones.
func (b *backend) holds() bool {
	pause := b.sup.pausedBy(b.pauses)
	switch {
	case pause == nil && b.paused == nil:
		return false
	case pause == nil:
		b.paused, b.retryAt = nil, time.Time{}
		b.log.Info("the node label that paused the backend has changed: it starts again")
		return false
	case b.paused != nil && *b.paused == *pause:
		return true
	}
	b.paused = pause
	b.log.Warn("backend paused", "reason", pause)
	desc := b.checkedDesc
	if b.candidate != nil {
		b.drop(b.candidate, pause)
		b.candidate = nil
	}
	if before := b.current; before != nil {
		desc = before.desc
		b.serve(nil)
		b.ending[before] = false
		go before.retire(pause)
	}
	b.announced = true
	b.sup.sink.Started(b.name, desc)
	if err := b.reportUnread(pause); err != nil {
		b.log.Error("the devices of the paused backend may be advertised as healthy", "error", err)
	}
	return true
}

// reportUnread reports that nothing could be looked at, so that the devices stay as they were, and are unhealthy.
func (b *backend) reportUnread(pause *PausedError) error {
	report, err := inventory.EncodeReport(&backendv1.Inventory{Generation: 1, Unread: []*backendv1.Unread{{Reason: "the backend does not run: " + pause.Error()}}})
	if err != nil {
		return err
	}
	return b.sup.sink.Report(b.name, report)
}

// checked stores what the check of an instance found.
func (b *backend) checked(i *instance) {
	b.pauses, b.checkedDesc = i.program.Manifest.PausedWhile, i.rights.desc
}

// offer passes changed settings to the running process.
func (b *backend) offer(settings json.RawMessage) {
	if bytes.Equal(b.offered, settings) {
		return
	}
	b.offered = settings
	select {
	case <-b.current.offers: // it was not received yet
	default:
	}
	b.current.offers <- settings // the slot is free, and only this goroutine fills it
}

// blocked reports whether a start must wait for the end of an earlier process. It need not
// wait for one that only finishes its calls while its successor runs.
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
	b.tried = plug.MarksOf(b.sup.backendDir, b.spec.Command)
	b.target = b.spec
	i := &instance{
		backend: b, timing: &b.sup.timing, spec: b.spec, accepted: b.accepted, log: b.log,
		offers: make(chan json.RawMessage, 1),
	}
	if b.current == nil && b.accepted != nil && bytes.Equal(b.unusable, b.spec.Settings) {
		i.spec.Settings = b.accepted // reconcile offers it the newest then
	}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	b.candidate = i
	b.stage = Checking
	go i.run()
}

// nextCheck is the time until the goroutine must act without an event. The end of an
// earlier process is an event.
func (b *backend) nextCheck() time.Duration {
	const idle = time.Hour
	if b.paused != nil {
		return b.sup.timing.ProgramPoll
	}
	if b.candidate != nil || b.serves(b.spec) || b.retryAt.IsZero() || b.blocked() {
		return idle
	}
	return max(0, min(time.Until(b.retryAt), b.sup.timing.ProgramPoll))
}

// checkFiles ends a pause if the program, or a file that belongs to it, has changed since the latest start.
func (b *backend) checkFiles() {
	if b.retryAt.IsZero() && b.paused == nil || b.spec.Command == "" || b.candidate != nil {
		return
	}
	if plug.MarksOf(b.sup.backendDir, b.spec.Command) != b.tried {
		b.breaker.reset()
		b.unusable, b.mismatchedSince, b.pauses, b.paused = nil, time.Time{}, nil, nil
		b.retryAt = time.Now()
	}
}

// serves reports whether the current process is to stay for a spec.
func (b *backend) serves(spec Spec) bool {
	return b.current != nil && sameProcess(b.current.spec, spec) && !b.current.outdated && !bytes.Equal(b.current.unfit, spec.Settings)
}

// sameProcess reports whether a running process of one spec can serve the other.
func sameProcess(a, b Spec) bool {
	return a.Command == b.Command && a.Checksum == b.Checksum && a.ManifestChecksum == b.ManifestChecksum && a.Heartbeat == b.Heartbeat && maps.Equal(a.Env, b.Env) &&
		reflect.DeepEqual(a.Sandbox, b.Sandbox)
}

// Equal reports whether nothing changes for the process of one spec under the other: the fallback counts at a start alone.
func (s Spec) Equal(o Spec) bool { return sameProcess(s, o) && bytes.Equal(s.Settings, o.Settings) }
