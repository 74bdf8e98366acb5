package uevent

import (
	"log/slog"
	"time"
)

// Subscription gives uevents to a loop that also works without them, since it scans at an
// interval. Its methods must not be called concurrently.
//
//	s.Subscribe(interval)         before a scan
//	case e, ok := <-s.Events():   got := s.Accept(e, ok)
type Subscription struct {
	log    *slog.Logger
	listen func(want func(Event) bool) (*Listener, error)
	want   func(Event) bool
	// listener is nil while there are no events; failed: that was logged.
	listener *Listener
	failed   bool
}

// NewSubscription returns a subscription to the events that want accepts. Listen is [Listen],
// except in tests. It receives nothing before Subscribe.
func NewSubscription(log *slog.Logger, listen func(want func(Event) bool) (*Listener, error), want func(Event) bool) *Subscription {
	return &Subscription{log: log, listen: listen, want: want}
}

// Subscribe begins to listen, unless it already does. It logs the first of several failures,
// with the interval of the loop's scans. It may be called again.
func (s *Subscription) Subscribe(interval time.Duration) {
	if s.listener != nil {
		return
	}
	listener, err := s.listen(s.want)
	if err != nil {
		if !s.failed {
			s.log.Info("no uevents from the kernel, devices and drivers are only scanned at an interval",
				"interval", interval, "error", err)
		}
		s.failed = true
		return
	}
	s.listener, s.failed = listener, false
}

// Subscribed reports whether it listens.
func (s *Subscription) Subscribed() bool { return s.listener != nil }

// Events returns the channel of events; nil, which never receives, without a listener.
func (s *Subscription) Events() <-chan Event {
	if s.listener == nil {
		return nil
	}
	return s.listener.Events()
}

// Accept takes what was received from Events, and reports whether it is an event. At the end of
// the events it is not, and the next Subscribe listens again. Either is a reason to scan.
func (s *Subscription) Accept(event Event, ok bool) bool {
	if !ok {
		s.log.Warn("uevents ended", "error", s.listener.Err())
		s.listener = nil
		return false
	}
	s.log.Debug("uevent", "action", string(event.Action), "path", event.DevPath)
	return true
}

// Close ends the subscription.
func (s *Subscription) Close() {
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}
