package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/kubeapi"
)

// sink writes the Events of client-go's recorder, one at a time.
type sink struct {
	recorder *Recorder
	ctx      context.Context
}

// Create implements record.EventSink.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.write(event, func(ctx context.Context) (*corev1.Event, error) {
		written, err := s.recorder.opts.Client.CreateEvent(ctx, event)
		if apierrors.IsAlreadyExists(err) {
			return event, nil // an earlier try succeeded, and its answer was lost
		}
		return written, err
	})
}

// Update implements record.EventSink; the recorder does not call it.
func (s *sink) Update(event *corev1.Event) (*corev1.Event, error) { return s.Create(event) }

// Patch implements record.EventSink.
func (s *sink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.write(event, func(ctx context.Context) (*corev1.Event, error) {
		return s.recorder.opts.Client.PatchEvent(ctx, event.Namespace, event.Name, patch)
	})
}

// write tries until the server accepts the Event, or refuses it as invalid. It discards the
// Event when the Recorder is closed.
func (s *sink) write(event *corev1.Event, try func(context.Context) (*corev1.Event, error)) (*corev1.Event, error) {
	t := s.recorder.opts.Timing
	select {
	case <-s.recorder.ready:
	case <-s.ctx.Done():
		return event, nil
	}
	pauses := backoff.New(t.Backoff, t.BackoffLimit)
	for {
		ctx, cancel := context.WithTimeout(s.ctx, t.Deadline)
		written, err := try(ctx)
		cancel()
		switch {
		case s.closed():
			return event, nil
		case err == nil, apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			s.recorder.note(event, nil)
			return written, err
		}
		s.recorder.note(event, err)
		backoff.Sleep(s.ctx, pauses.Step())
	}
}

func (s *sink) closed() bool { return s.ctx.Err() != nil }

// note records whether Events are written, and logs when that changes.
func (r *Recorder) note(event *corev1.Event, err error) {
	problem := ""
	if err != nil {
		why, ok := kubeapi.Forbidden(err, "create", "events", metav1.NamespaceDefault)
		if !ok {
			why = err.Error()
		}
		problem = "Events about Node " + r.opts.Node + " cannot be written: " + why
	}
	r.mu.Lock()
	before := r.problem
	r.problem = problem
	r.mu.Unlock()
	switch {
	case before == "" && problem != "":
		r.log.Warn("cannot write Events, trying again", "reason", event.Reason, "error", err)
	case before != "" && problem == "":
		r.log.Info("Events are written again", "reason", event.Reason)
	}
}
