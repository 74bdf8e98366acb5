package driver

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// waitFirst is the duration of the first wait for events. Without events the
	// waits become longer, up to waitTime, since each costs CPU. Closing a stream
	// takes until the current wait ends.
	waitFirst, waitTime = 500 * time.Millisecond, 4 * time.Second
	// A failed wait is retried after retryFirst, later at growing intervals.
	retryFirst, retryLast = 100 * time.Millisecond, 30 * time.Second
	// backlog is the size of the buffer of events.
	backlog = 256
)

// eventTypes are the events to subscribe to. Nothing here uses single-bit ECC errors,
// clocks and power states.
var eventTypes = map[uint64]EventType{
	nvml.EventTypeXidCriticalError:      EventXID,
	nvml.EventTypeDoubleBitEccError:     EventECC,
	nvml.EventTypeDramRetirementEvent:   EventRetirement,
	nvml.EventTypeDramRetirementFailure: EventRetirementFailed,
	nvml.EventTypeNonFatalPoisonError:   EventPoison,
	nvml.EventTypeFatalPoisonError:      EventFatalPoison,
	nvml.EventTypeGpuUnavailableError:   EventUnavailable,
	nvml.EventTypeGpuRecoveryAction:     EventRecovery,
	nvml.EventMigConfigChange:           EventMIG,
}

// Stream sends events until it is closed.
type Stream struct {
	events chan Event
	stop   context.CancelFunc
	done   chan struct{}

	mu           sync.Mutex
	missed       uint64 // events that were dropped and not yet reported
	subscribed   map[string][]EventType
	unsubscribed map[string]error
}

// Subscribed returns the GPUs that send events now, by UUID, with the types of events
// that they support, in a stable order.
func (e *Stream) Subscribed() map[string][]EventType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.subscribed)
}

// Unsubscribed returns why GPUs send no events now, by UUID. On ErrNotSupported their
// health can only be polled. The result may change with EventBroken and
// EventMended.
func (e *Stream) Unsubscribed() map[string]error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.unsubscribed)
}

// Events returns the channel of events. Only Close closes it.
func (e *Stream) Events() <-chan Event { return e.events }

// Close ends the stream. It takes up to 4 seconds, and returns ErrNoAnswer if the
// wait hangs in the driver.
func (e *Stream) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nvmlEventSetWait: %w", ErrNoAnswer)
	}
}

// Listen subscribes to the events of all GPUs that a snapshot has read. Earlier events are
// lost. There should be only one stream; after the set of GPUs has changed, start a new
// one. NVML's system events are not used: the kernel reports the same, and a second wait
// would need a second thread.
func (d *Driver) Listen(ctx context.Context) (*Stream, error) {
	s := d.current()
	if s == nil {
		return nil, ErrClosed
	}
	background, stop := context.WithCancel(context.Background())
	e := &Stream{events: make(chan Event, backlog), stop: stop, done: make(chan struct{})}
	gpus := &deviceEvents{d: d, s: s, e: e}
	if err := gpus.renew(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("listen to events: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != s {
		stop()
		return nil, ErrClosed // closing the library frees the set
	}
	d.streams[e] = struct{}{}
	go func() {
		e.loop(background, gpus)
		d.mu.Lock()
		delete(d.streams, e)
		d.mu.Unlock()
		close(e.events)
		close(e.done)
	}()
	return e, nil
}

// loop sends the events of a source until ctx ends. A source that fails is renewed and
// read at growing intervals; the failure and the recovery are sent as events. Reads of a
// source that returns at once without an event, or faster than the reader, are slowed down.
func (e *Stream) loop(ctx context.Context, from *deviceEvents) {
	defer from.free()
	retry, limit := time.Duration(0), waitFirst
	for ctx.Err() == nil {
		start := time.Now()
		events, err := from.wait(limit)
		switch {
		case err != nil && retry == 0:
			e.put(Event{Type: EventBroken, Err: err, GPUInstance: Whole, ComputeInstance: Whole})
			retry = retryFirst
		case err != nil:
			retry = min(2*retry, retryLast)
		case retry != 0:
			e.put(Event{Type: EventMended, GPUInstance: Whole, ComputeInstance: Whole})
			retry = 0
		}
		for _, event := range events {
			e.put(event)
		}
		switch {
		case retry != 0:
			pause(ctx, retry/2+rand.N(retry/2))
			// If renew fails, the next wait returns the error.
			_ = from.renew(ctx)
		case !e.sendMissed() || len(events) == 0 && time.Since(start) < limit/10:
			pause(ctx, retryFirst)
		case len(events) == 0:
			limit = min(2*limit, waitTime)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// put sends an event without waiting for the reader. After a dropped event, it sends
// none before EventMissed.
func (e *Stream) put(event Event) {
	event.Time = time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flush() {
		select {
		case e.events <- event:
			return
		default:
		}
	}
	e.missed++
}

func (e *Stream) sendMissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flush()
}

// flush sends EventMissed if events were dropped. It returns false without room for it.
func (e *Stream) flush() bool {
	if e.missed == 0 {
		return true
	}
	select {
	case e.events <- Event{Type: EventMissed, Time: time.Now(), Data: e.missed,
		GPUInstance: Whole, ComputeInstance: Whole}:
		e.missed = 0
		return true
	default:
		return false
	}
}
