package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// floodBurst is how many samples may come at once; in the long run two an interval may.
const floodBurst = 5

// feed is one backend that is measured. Its goroutine keeps a stream open. The fields below
// begun are guarded by the mutex of Telemetry.
type feed struct {
	of       *Telemetry
	backend  string
	interval time.Duration
	cancel   context.CancelFunc
	begun    time.Time

	newest *sample
	// settled: a sample came, or the stream failed.
	settled bool
	// ended: the goroutine has ended.
	ended bool
	// failure is why there is no stream now; "" if there is one.
	failure string
	// loggedRules are the rules whose breach was logged, and logged is the failure that was
	// logged last.
	loggedRules map[rule]bool
	logged      string
}

// begin starts to measure a backend. newest is the sample of an earlier stream with another
// interval, which is shown as long as it would have been. The caller holds t.mu.
func (t *Telemetry) begin(ctx context.Context, backend string, interval time.Duration, newest *sample) {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{
		of: t, backend: backend, interval: interval, cancel: cancel, begun: time.Now(),
		newest: newest, settled: newest != nil, loggedRules: map[rule]bool{},
	}
	t.feeds[backend] = f
	t.changed()
	t.group.Go(func() {
		f.run(ctx)
		cancel()
		t.mu.Lock()
		f.ended = true
		t.mu.Unlock()
		signal(t.wake)
	})
}

// forget drops the newest sample. The caller holds the mutex.
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
		timer := time.NewTimer(f.of.timing.pause(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// stream takes samples from one stream, and returns why it ended.
func (f *feed) stream(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := max(f.of.timing.Silence, shownFor*f.interval)
	watchdog := time.AfterFunc(silence, func() {
		end(fmt.Errorf("no sample came for %s: a call to the hardware or its driver may hang", silence))
	})
	defer watchdog.Stop()
	rate := rate{per: f.interval / 2, tokens: floodBurst, filled: time.Now()}
	err := f.of.opts.Sample(ctx, f.backend, f.interval, func(response *backendv1.SampleResponse) {
		if ctx.Err() != nil {
			return
		}
		if !rate.allow(time.Now()) {
			end(fmt.Errorf("it sends samples far more often than every %s, the interval that was requested", f.interval))
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

// take checks a sample and makes it the newest.
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
	look := t.opts.Look()
	next := parse(before, response.GetMetrics(), rules{
		reserved: t.opts.Reserved, budget: spent,
		known: func(id string) bool {
			_, known := look(inventory.Key{Backend: f.backend, ID: id})
			return known
		},
	})
	next.backend, next.at, next.interval = f.backend, time.Now(), f.interval
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.feeds[f.backend] != f {
		return
	}
	f.newest, f.settled, f.failure = next, true, ""
	for _, c := range next.complaints {
		if !f.loggedRules[c.rule] {
			f.loggedRules[c.rule] = true
			t.log.Warn("metrics of a backend are left out", "backend", f.backend, "error", c.text)
		}
	}
	t.changed()
}

// fail records why a stream ended. The end of the backend's process is no failure of
// telemetry: the supervisor reports it.
func (f *feed) fail(err error) {
	t := f.of
	level := slog.LevelWarn
	failure := fmt.Sprintf("telemetry is not available, and is tried again: %s", err)
	if errors.Is(err, supervisor.ErrNotRunning) || errors.Is(err, supervisor.ErrUnknownBackend) {
		level, failure = slog.LevelDebug, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.failure, f.settled = failure, true
	t.changed()
	if f.logged != failure {
		f.logged = failure
		t.log.Log(context.Background(), level, "telemetry stream ended", "backend", f.backend, "error", err)
	}
}

// rate is a token bucket.
type rate struct {
	per    time.Duration // for one token
	tokens float64
	filled time.Time
}

func (r *rate) allow(now time.Time) bool {
	r.tokens = min(floodBurst, r.tokens+float64(now.Sub(r.filled))/float64(r.per))
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}
