package monitor

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// maxPending bounds the events whose GPU has not been read since. Further events are dropped.
const maxPending = 4096

// Inbox stores events until their GPU has been read. Its methods may be called from any goroutine.
type Inbox struct {
	// Urgent signals that there are pending events, Changed that MIG devices are created or
	// destroyed, Lost that events may be lost. Each channel holds one signal.
	Urgent, Changed, Lost chan struct{}

	log     *slog.Logger
	mu      sync.Mutex
	pending []driver.Event
}

func newInbox(log *slog.Logger) *Inbox {
	return &Inbox{log: log, Urgent: make(chan struct{}, 1), Changed: make(chan struct{}, 1), Lost: make(chan struct{}, 1)}
}

// Put handles an event: it stores one that may be a fault, and sends the signal for its type. A
// failure to receive events is only logged.
func (i *Inbox) Put(event driver.Event) {
	switch event.Type {
	case driver.EventBroken:
		i.log.Warn("NVML's events cannot be received: until they can, the GPUs are scanned at the interval only", "error", event.Err)
	case driver.EventMIG:
		i.log.Debug("the MIG devices of a GPU change", "device", event.GPU)
		signal(i.Changed)
	case driver.EventMended:
		i.log.Info("NVML's events are received again")
		signal(i.Lost)
	default:
		i.log.Debug("event", "type", string(event.Type), "device", event.GPU, "xid", event.XID)
		i.mu.Lock()
		defer i.mu.Unlock()
		if len(i.pending) < maxPending {
			i.pending = append(i.pending, event)
		}
		signal(i.Urgent)
	}
}

// signal sends a signal, unless the channel already holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pending returns the events that Take has not removed.
func (i *Inbox) Pending() []driver.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.pending)
}

// Take removes and returns the events up to the time before for which of returns true.
func (i *Inbox) Take(before time.Time, of func(driver.Event) bool) (taken []driver.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending = slices.DeleteFunc(i.pending, func(e driver.Event) bool {
		if e.Time.After(before) || !of(e) {
			return false
		}
		taken = append(taken, e)
		return true
	})
	return taken
}
