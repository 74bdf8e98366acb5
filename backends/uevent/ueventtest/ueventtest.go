// Package ueventtest is a fake kernel for tests of code that listens to uevents.
package ueventtest

import (
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/uevent"
)

// Kernel sends the events that a test wants. Its methods may be called at any time; events
// without a listener are lost, as with the real kernel.
type Kernel struct {
	mu        sync.Mutex
	listeners []*source
	refusal   error
	opened    int
}

// Listen replaces [uevent.Listen].
func (k *Kernel) Listen(want func(uevent.Event) bool) (*uevent.Listener, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened++
	if k.refusal != nil {
		return nil, k.refusal
	}
	s := &source{messages: make(chan message, 4096), closed: make(chan struct{})}
	k.listeners = append(k.listeners, s)
	return uevent.NewListener(s, want), nil
}

// Refuse makes later calls of Listen fail; nil ends that.
func (k *Kernel) Refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusal = err
}

// Calls returns the number of calls of Listen.
func (k *Kernel) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opened
}

// Send sends an event with the properties that the kernel sets, and more.
func (k *Kernel) Send(action uevent.Action, devPath, subsystem string, properties map[string]string) {
	k.send(message{data: Message(action, devPath, subsystem, properties)})
}

// Miss reports dropped events.
func (k *Kernel) Miss() { k.send(message{err: uevent.ErrMissed}) }

// Break makes the listeners fail.
func (k *Kernel) Break(err error) { k.send(message{err: err}) }

func (k *Kernel) send(m message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.listeners {
		select {
		case s.messages <- m:
		case <-s.closed:
		}
	}
}

// Message returns an event in the kernel's format.
func Message(action uevent.Action, devPath, subsystem string, properties map[string]string) []byte {
	words := []string{string(action) + "@" + devPath, "ACTION=" + string(action), "DEVPATH=" + devPath, "SUBSYSTEM=" + subsystem}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		words = append(words, name+"="+properties[name])
	}
	return []byte(strings.Join(words, "\x00") + "\x00")
}

type message struct {
	data []byte
	err  error
}

type source struct {
	messages chan message
	closed   chan struct{}
}

// Receive implements [uevent.Source].
func (s *source) Receive(buf []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, io.EOF
	default:
	}
	select {
	case m := <-s.messages:
		return copy(buf, m.data), m.err
	case <-s.closed:
		return 0, io.EOF
	}
}

// Close implements [uevent.Source].
func (s *source) Close() error {
	close(s.closed)
	return nil
}
