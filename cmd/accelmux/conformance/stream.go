package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// stream is one Watch stream.
type stream struct {
	check   *check
	session *session
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended
	pace    time.Duration // of heartbeats

	mu       sync.Mutex
	last     *backendv1.Inventory
	took     int // inventories
	beats    int
	messages int
	// disturbed is set if the program does not see the real hardware. Then neither pauses nor
	// devices are checked.
	disturbed bool
	// ending is set when the process, and the stream with it, is about to end.
	ending  bool
	begun   time.Time
	at      time.Time // of the last event
	changed chan struct{}
}

// watch opens a Watch stream. Call stop afterwards.
func (c *check) watch(ctx context.Context, s *session, disturbed bool) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	request := &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(c.timing.Heartbeat)}
	request.ProtoReflect().SetUnknown(unknown)
	wire, err := s.service.Watch(ctx, request)
	if err != nil {
		cancel()
		return nil, s.failed("Watch", 0, err)
	}
	w := &stream{
		check: c, session: s, cancel: cancel, done: make(chan struct{}), pace: c.timing.Heartbeat, disturbed: disturbed,
		begun: time.Now(), changed: make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		for {
			event, err := wire.Recv()
			if err != nil {
				w.end(ctx, err)
				return
			}
			w.take(event)
		}
	}()
	return w, nil
}

// stop ends the stream and waits for its end.
func (w *stream) stop() {
	w.cancel()
	<-w.done
}

// expectEnd allows the stream to end, and a pause before that.
func (w *stream) expectEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending, w.disturbed = true, true
}

// end checks how the stream ended.
func (w *stream) end(ctx context.Context, err error) {
	w.mu.Lock()
	ending := w.ending
	w.mu.Unlock()
	switch {
	case ctx.Err() != nil || ending:
	case status.Code(err) == codes.ResourceExhausted:
		w.check.fail(watchRate, "it sent a message above the limit of %d MiB: %s", backendplugin.MaxMessageSize>>20, status.Convert(err).Message())
	case errors.Is(err, io.EOF):
		w.check.fail(watchStream, "it ended the stream")
	default:
		w.check.fail(watchStream, "%s", w.session.failed("Watch", 0, err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
}

// take checks one event.
func (w *stream) take(event *backendv1.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.messages++
	most := float64(backendplugin.MessageBurst) + backendplugin.MessageRate*now.Sub(w.begun).Seconds()
	if float64(w.messages) > most {
		w.check.fail(watchRate, "it sent %d messages in %s", w.messages, now.Sub(w.begun).Round(time.Millisecond))
	}
	if gap := now.Sub(w.at); w.took > 0 && !w.disturbed && gap > w.check.timing.Silence {
		w.check.fail(heartbeats, "no event for %s, with an interval of %s", gap.Round(time.Millisecond), w.pace)
	}
	w.at = now
	switch e := event.GetEvent().(type) {
	case *backendv1.WatchResponse_Heartbeat:
		w.beats++
	case *backendv1.WatchResponse_Inventory:
		w.inventory(e.Inventory)
	default:
		if w.took == 0 {
			w.check.fail(firstInventory, "the first event that is no heartbeat is a %T", e)
		} else {
			w.check.fail(firstInventory, "it sent a %T, which was not requested", e)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// missedBeats is the number of heartbeats that may be missing.
const missedBeats = 3

// inventory checks an inventory. The caller holds the lock.
func (w *stream) inventory(next *backendv1.Inventory) {
	if w.last != nil && next.GetGeneration() == w.last.GetGeneration() {
		w.check.fail(generations, "the generation %d came twice in a stream", next.GetGeneration())
	}
	generation, revision := w.session.take(next)
	if generation != nil {
		w.check.fail(generations, "%s", generation)
	}
	if revision != nil {
		w.check.fail(settingsRevision, "%s", revision)
	}
	w.last = next
	w.took++
	if !w.disturbed {
		w.check.judgeInventory(next)
	}
}

// newest returns the last inventory, or nil, and the number of inventories so far.
func (w *stream) newest() (*backendv1.Inventory, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.took
}

// await calls condition after each event, with the lock held, until it returns true. It reports
// whether it did within the limit.
func (w *stream) await(ctx context.Context, limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		holds, changed := condition(), w.changed
		w.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
		select {
		case <-w.done:
			w.mu.Lock()
			defer w.mu.Unlock()
			return condition()
		default:
		}
	}
}

// watchListed opens a Watch stream whose first inventory has come. The caller stops it.
func (c *check) watchListed(ctx context.Context, s *session, disturbed bool) (*stream, error) {
	w, err := c.watch(ctx, s, disturbed)
	if err != nil {
		return nil, err
	}
	if err := w.awaitInventory(ctx, c.timing.Inventory); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// awaitInventory waits for the first inventory of the stream.
func (w *stream) awaitInventory(ctx context.Context, limit time.Duration) error {
	if w.await(ctx, limit, func() bool { return w.took > 0 }) {
		return nil
	}
	if ending := w.session.ending(); ending != "" {
		return errors.New(ending)
	}
	return fmt.Errorf("no inventory came within %s", limit)
}
