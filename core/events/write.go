package events

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tries is how often an Event is tried to be written.
	tries = 5
	// maxWritten bounds the Events that are remembered.
	maxWritten = 256
)

// Run writes Events until ctx ends; those that wait then are dropped.
func (r *Recorder) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(r.opts.Timing.Spread)):
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case rec := <-r.queue:
			r.write(ctx, rec, time.Now())
		}
	}
}

// write writes one Event, trying again while that may help.
func (r *Recorder) write(ctx context.Context, rec record, now time.Time) {
	pause, event := r.opts.Timing.Backoff, r.event(rec, now)
	for try := 1; ; try++ {
		err := r.try(ctx, rec, event)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.note("")
			return
		}
		if try == tries || hopeless(err) {
			r.note("Events about Node " + r.opts.Node + " cannot be written: " + err.Error())
			r.log.Warn("Event dropped", "reason", string(rec.reason), "message", rec.message, "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		pause *= 2
	}
}

// hopeless reports whether another try would end the same way.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
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
