package uevent

import (
	"log/slog"
	"time"
)

// Ear is how a loop listens that goes on without uevents, too, since it looks by
// itself now and then. It is the loop's alone: none of its methods may be called
// concurrently.
//
//	ear.Attend(every)              before a look
//	case e, ok := <-ear.Events():  told := ear.Hear(e, ok)
type Ear struct {
	log    *slog.Logger
	listen func(want func(Event) bool) (*Listener, error)
	want   func(Event) bool
	// listener is nil while there are no events, and deaf says that this was told.
	listener *Listener
	deaf     bool
}

// NewEar is one that listens by listen, which is [Listen] but in tests, to the events
// that want keeps. It does nothing before it is told to attend.
func NewEar(log *slog.Logger, listen func(want func(Event) bool) (*Listener, error), want func(Event) bool) *Ear {
	return &Ear{log: log, listen: listen, want: want}
}

// Attend begins to listen, unless it does already. Where that cannot be had it is told
// once in the log, with how often the loop looks by itself; it can be called again.
func (e *Ear) Attend(every time.Duration) {
	if e.listener != nil {
		return
	}
	listener, err := e.listen(e.want)
	if err != nil {
		if !e.deaf {
			e.log.Info("the kernel does not tell of devices and drivers that come and go, they are looked for now and then",
				"every", every, "error", err)
		}
		e.deaf = true
		return
	}
	e.listener, e.deaf = listener, false
}

// Events are what is heard; nil, which gives nothing, while nobody listens.
func (e *Ear) Events() <-chan Event {
	if e.listener == nil {
		return nil
	}
	return e.listener.Events()
}

// Hear takes what Events gave, and reports whether it is an event: at the end of the
// events it is none, and the next Attend begins anew. Either is a reason to look.
func (e *Ear) Hear(event Event, ok bool) bool {
	if !ok {
		e.log.Warn("the kernel's uevents ended", "error", e.listener.Err())
		e.listener = nil
		return false
	}
	e.log.Debug("uevent", "action", string(event.Action), "path", event.DevPath)
	return true
}

// Close ends it.
func (e *Ear) Close() {
	if e.listener != nil {
		e.listener.Close()
		e.listener = nil
	}
}
