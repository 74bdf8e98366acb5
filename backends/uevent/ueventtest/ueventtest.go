// Package ueventtest is a kernel for tests of what listens to uevents.
package ueventtest

import (
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/uevent"
)

// Kernel tells what a test has it tell. Its methods may be called at any time; what
// is told while nobody listens is lost, as with the real one.
type Kernel struct {
	mu        sync.Mutex
	listeners []*source
	refusal   error
	opened    int
}

// Listen is as [uevent.Listen].
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

// Refuse has later calls of Listen fail; nil ends that.
func (k *Kernel) Refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusal = err
}

// Asked is how often it was asked to be listened to.
func (k *Kernel) Asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opened
}

// Tell tells an event, with the properties as the kernel has them, and others.
func (k *Kernel) Tell(action uevent.Action, devPath, subsystem string, properties map[string]string) {
	k.send(message{data: Message(action, devPath, subsystem, properties)})
}

// Miss has events be dropped.
func (k *Kernel) Miss() { k.send(message{err: uevent.ErrMissed}) }

// Break ends what is listened to with an error.
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

// Message is an event in the kernel's form.
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
