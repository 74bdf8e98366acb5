package uevent

import (
	"errors"
	"sync"
)

// Source is a source of messages; [Listen] uses the kernel.
type Source interface {
	// Receive waits for a message of the kernel and puts it into buf. It returns ErrMissed if
	// messages were dropped; then it can be called again. After any other error it is not called
	// again.
	Receive(buf []byte) (int, error)
	// Close ends a Receive. It is called once.
	Close() error
}

// ErrMissed means that messages were dropped.
var ErrMissed = errors.New("uevents were missed")

// backlog is how many events wait for the reader; the socket buffers some hundred more.
const backlog = 16

// Listener passes on events as they happen, until it is closed.
type Listener struct {
	source Source
	want   func(Event) bool
	events chan Event
	stop   chan struct{}
	done   chan struct{}
	close  func()
	err    error // read it only after events was closed
}

// Listen begins to listen to the kernel. Events from before are lost. Want reports which of the
// others are passed on; it is called by one goroutine, never for [Missed]. Listen fails where
// there is no such socket.
func Listen(want func(Event) bool) (*Listener, error) {
	socket, err := open()
	if err != nil {
		return nil, err
	}
	return NewListener(socket, want), nil
}

// NewListener listens to another source, and closes it at the end.
func NewListener(source Source, want func(Event) bool) *Listener {
	l := &Listener{
		source: source, want: want,
		events: make(chan Event, backlog), stop: make(chan struct{}), done: make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() {
		close(l.stop)
		_ = l.source.Close() // ends Receive
	})
	go l.run()
	return l
}

// Events is closed when the listener was, or when nothing more can be received; Err returns why.
func (l *Listener) Events() <-chan Event { return l.events }

// Err returns why the events ended; nil after Close. Call it only after they ended.
func (l *Listener) Err() error {
	<-l.done
	return l.err
}

// Close ends the listener at once. It can be called again, and at any time.
func (l *Listener) Close() {
	l.close()
	<-l.done
}

func (l *Listener) run() {
	defer close(l.done)
	defer close(l.events)
	buf := make([]byte, maxMessage)
	for {
		n, err := l.source.Receive(buf)
		event := Event{Action: Missed}
		switch {
		case errors.Is(err, ErrMissed):
		case err != nil:
			l.end(err)
			return
		default:
			if event, err = Parse(buf[:n]); err != nil || !l.want(event) {
				continue
			}
		}
		select {
		case l.events <- event:
		case <-l.stop:
			return
		}
	}
}

// end records why nothing can be received, unless the listener was closed, and closes the
// source.
func (l *Listener) end(err error) {
	select {
	case <-l.stop:
	default:
		l.err = err
		l.close()
	}
}
