package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/kubeapi"
)

const (
	// tries is how often an Event is tried to be written.
	tries = 5
	// maxWritten bounds the Events that are remembered.
	maxWritten = 256
)

// owed is an Event that could not be written.
type owed struct {
	record
	at time.Time
}

// Run writes Events until ctx ends; those that wait then are dropped. The newest of
// those that could not be written is tried again from time to time: so it is seen
// that the API server is back, or a right.
func (r *Recorder) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(r.opts.Timing.Spread)):
	}
	var due *owed
	again := r.opts.Timing.Again
	retry := time.NewTimer(again)
	defer retry.Stop()
	for {
		rec := owed{at: time.Now()}
		select {
		case <-ctx.Done():
			return nil
		case rec.record = <-r.queue:
			rec.at = time.Now()
		case <-retry.C:
			if due == nil {
				continue
			}
			rec = *due
		}
		mended, tryAgain := r.write(ctx, rec)
		switch {
		case mended && due != nil && *due != rec:
			retry.Reset(0) // its turn, now that it can be written
		case mended, !tryAgain && due != nil && *due == rec:
			due, again = nil, r.opts.Timing.Again
		case tryAgain:
			if due != nil && *due != rec {
				r.lost++
			}
			due = &rec
			retry.Reset(again/2 + rand.N(again/2+1))
			again = min(2*again, r.opts.Timing.AgainLimit)
		}
	}
}

// write writes one Event, trying again while that may help soon. again says that
// it may help later.
func (r *Recorder) write(ctx context.Context, rec owed) (written, again bool) {
	pause, event := r.opts.Timing.Backoff, r.event(rec.record, rec.at)
	for try := 1; ; try++ {
		err := r.try(ctx, rec.record, event)
		if ctx.Err() != nil {
			return false, false
		}
		if err == nil {
			r.note("")
			r.recovered()
			return true, false
		}
		if try == tries || hopeless(err) {
			r.refused(rec.record, err)
			return false, !invalid(err)
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		pause *= 2
	}
}

// refused notes why an Event could not be written.
func (r *Recorder) refused(rec record, err error) {
	why := err.Error()
	if text, ok := kubeapi.Forbidden(err, "create", "events", namespace); ok {
		why = text
	}
	r.note("Events about Node " + r.opts.Node + " cannot be written: " + why)
	level := slog.LevelWarn
	if !invalid(err) {
		if r.outage {
			level = slog.LevelDebug // the first of the outage has told
		}
		r.outage = true
	}
	r.log.Log(context.Background(), level, "Event not written", "reason", string(rec.reason), "message", rec.message, "error", err)
}

// recovered notes that Events can be written.
func (r *Recorder) recovered() {
	if r.outage {
		r.log.Info("Events are written again", "lost", r.lost)
	}
	r.outage, r.lost = false, 0
}

// hopeless reports whether another try would soon end the same way.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || invalid(err)
}

// invalid reports whether it is the Event that is wrong.
func invalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

func (r *Recorder) note(problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = problem
}

// try counts up an Event that was written before, or writes a new one.
func (r *Recorder) try(ctx context.Context, rec record, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timing.Deadline)
	defer cancel()
	now := event.FirstTimestamp.Time
	r.forget(now)
	if before := r.written[rec]; before != nil {
		err := r.countUp(ctx, before, now)
		if !apierrors.IsNotFound(err) {
			return err
		}
		delete(r.written, rec) // the server has forgotten it
	}
	// That it exists is an earlier try, whose answer was lost.
	if err := r.opts.Sink.CreateEvent(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if len(r.written) < maxWritten {
		r.written[rec] = event
	}
	return nil
}

// countUp says that an Event happened again.
func (r *Recorder) countUp(ctx context.Context, event *corev1.Event, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"count": event.Count + 1, "lastTimestamp": metav1.NewTime(now)})
	if err != nil {
		return err
	}
	if err := r.opts.Sink.PatchEvent(ctx, event.Namespace, event.Name, patch); err != nil {
		return err
	}
	event.Count++
	event.LastTimestamp = metav1.NewTime(now)
	return nil
}

// forget drops what was written long ago.
func (r *Recorder) forget(now time.Time) {
	for rec, event := range r.written {
		if now.Sub(event.LastTimestamp.Time) > r.opts.Timing.Memory {
			delete(r.written, rec)
		}
	}
}
