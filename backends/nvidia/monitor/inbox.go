package monitor

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// maxPending bounds the events that no reading of their GPU has followed. Later ones are dropped.
const maxPending = 4096

// Inbox stores events until their GPU was read. Its methods may be called from any goroutine.
type Inbox struct {
	// Urgent: there are events to judge. Changed: the devices change. Lost: events may be lost.
	// Each has room for one signal.
	Urgent, Changed, Lost chan struct{}

	log     *slog.Logger
	mu      sync.Mutex
	pending []driver.Event
}

func newInbox(log *slog.Logger) *Inbox {
	return &Inbox{log: log, Urgent: make(chan struct{}, 1), Changed: make(chan struct{}, 1), Lost: make(chan struct{}, 1)}
}

// Put stores an event, and signals what it requires.
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

// signal puts a signal into a channel, unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pending returns the events that were not taken.
func (i *Inbox) Pending() []driver.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.pending)
}

// Take removes and returns the events from before a time for which of is true.
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
