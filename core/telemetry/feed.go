package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/wake"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// floodBurst is how many samples a backend may send in a burst; the limit is two in an
// interval.
const floodBurst = 5

// feed is one backend that is measured. Its goroutine keeps a stream open; the mutex of
// Telemetry guards the fields that change.
type feed struct {
	of       *Telemetry
	backend  string
	interval time.Duration
	cancel   context.CancelFunc
	begun    time.Time

	newest *sample
	// answered: a sample was received, or the stream failed.
	answered bool
	// ended: the goroutine has ended.
	ended bool
	// failure is why there is no stream now; "" if there is one.
	failure string
	// logged are the rules whose violation was logged, and lastLogged is the failure that
	// was logged last.
	logged     map[rule]bool
	lastLogged string
}

// begin starts to measure a backend. The caller holds t.mu.
func (t *Telemetry) begin(ctx context.Context, backend string, interval time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{of: t, backend: backend, interval: interval, cancel: cancel, begun: time.Now(), logged: map[rule]bool{}}
	t.feeds[backend] = f
	t.changed()
	t.group.Go(func() {
		f.run(ctx)
		cancel()
		t.mu.Lock()
		f.ended = true
		t.mu.Unlock()
		wake.Send(t.wake)
	})
}

// forget drops the sample and the failure. The caller holds the mutex.
func (f *feed) forget() { f.newest, f.failure = nil, "" }

// run keeps a stream open until ctx ends.
func (f *feed) run(ctx context.Context) {
	for failures := 0; ; failures++ {
		begun := time.Now()
		err := f.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) >= f.of.timing.Stable {
			failures = 0
		}
		f.fail(err)
		if !backoff.Sleep(ctx, backoff.After(failures+1, f.of.timing.Backoff, f.of.timing.BackoffLimit)) {
			return
		}
	}
}

// stream receives samples from one stream and returns why it ended.
func (f *feed) stream(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := max(f.of.timing.Silence, shownFor*f.interval)
	watchdog := time.AfterFunc(silence, func() {
		end(fmt.Errorf("no sample was received for %s: a call to the hardware or its driver may hang", silence))
	})
	defer watchdog.Stop()
	limit := rate.NewLimiter(rate.Every(f.interval/2), floodBurst)
	err := f.of.opts.Sample(ctx, f.backend, f.interval, func(response *backendv1.SampleResponse) {
		if ctx.Err() != nil {
			return
		}
		if !limit.Allow() {
			end(fmt.Errorf("it sends samples far more often than every %s, the requested interval", f.interval))
			return
		}
		watchdog.Reset(silence)
		f.take(response)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = errors.New("the stream ended")
	}
	return err
}

// take checks a sample and stores it as the newest.
func (f *feed) take(response *backendv1.SampleResponse) {
	t := f.of
	t.mu.Lock()
	before, spent := f.newest, t.budgets[f.backend]
	if spent == nil {
		spent = &budget{}
		t.budgets[f.backend] = spent
	}
	t.mu.Unlock()
	spent.turn(time.Now())
	ownerOf := t.opts.Owners()
	next := parse(response.GetMetrics(), before != nil && before.hasUnknown, rules{
		reserved: t.opts.Reserved, budget: spent,
		known: func(id string) bool {
			_, known := ownerOf(inventory.Key{Backend: f.backend, ID: id})
			return known
		},
	})
	next.backend, next.at, next.interval = f.backend, time.Now(), f.interval
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.feeds[f.backend] != f {
		return
	}
	f.newest, f.answered, f.failure = next, true, ""
	for _, c := range next.violations {
		if !f.logged[c.rule] {
			f.logged[c.rule] = true
			t.log.Warn("metrics of a backend are left out", "backend", f.backend, "error", c.text)
		}
	}
	t.changed()
}

// fail records why a stream ended. The end of its process is not recorded: the supervisor
// reports it.
func (f *feed) fail(err error) {
	t := f.of
	level := slog.LevelWarn
	failure := fmt.Sprintf("telemetry is not available, and is tried again: %s", err)
	if errors.Is(err, supervisor.ErrNotRunning) || errors.Is(err, supervisor.ErrUnknownBackend) {
		level, failure = slog.LevelDebug, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.failure, f.answered = failure, true
	t.changed()
	if f.lastLogged != failure {
		f.lastLogged = failure
		t.log.Log(context.Background(), level, "the telemetry stream ended", "backend", f.backend, "error", err)
	}
}
