package monitor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// releaseLimit bounds the closing of a driver or a stream.
const releaseLimit = 5 * time.Second

// Monitor has the open driver and its events. Its methods may be called from any goroutine.
type Monitor struct {
	// Inbox has the events.
	Inbox *Inbox
	// Ended is the context of calls of the driver; Stop ends it.
	Ended context.Context //nolint:containedctx // scans have none of their own

	open   func(driver.Options) *driver.Driver
	stop   context.CancelFunc
	driver atomic.Pointer[driver.Driver]
	// releases close drivers and streams.
	releases sync.WaitGroup

	mu sync.Mutex // guards all below
	// opened are the options of driver.
	opened driver.Options
	stream *driver.Stream
	// subscribed are the UUIDs of the GPUs when stream began.
	subscribed []string
}

// New returns a monitor that opens drivers by open, as [driver.New] does.
func New(log *slog.Logger, open func(driver.Options) *driver.Driver) *Monitor {
	m := &Monitor{Inbox: newInbox(log), open: open}
	m.Ended, m.stop = context.WithCancel(context.Background())
	return m
}

// Driver returns the driver; nil before the first Use.
func (m *Monitor) Driver() *driver.Driver { return m.driver.Load() }

// Use returns the driver for these options. It replaces one that has other options.
func (m *Monitor) Use(options driver.Options) *driver.Driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.Driver()
	if before != nil && options.Library == m.opened.Library && options.Root == m.opened.Root && options.ProcFS == m.opened.ProcFS {
		return before
	}
	if before != nil {
		m.releases.Go(func() { release(before) })
	}
	d := m.open(options)
	m.driver.Store(d)
	m.opened, m.stream = options, nil
	return d
}

// Subscribe subscribes to the events of the GPUs with these UUIDs, instead of an earlier set
// of GPUs. It reports whether the subscription is new.
func (m *Monitor) Subscribe(uuids []string) (isNew bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil && slices.Equal(uuids, m.subscribed) {
		return false, nil
	}
	stream, err := m.Driver().Listen(m.Ended)
	if err != nil {
		return false, err
	}
	if before := m.stream; before != nil {
		m.releases.Go(func() { release(before) })
	}
	m.stream, m.subscribed = stream, uuids
	go func() {
		for event := range stream.Events() {
			m.Inbox.Put(event)
		}
		signal(m.Inbox.Lost)
	}()
	return true, nil
}

// Close closes the driver for a while, with its stream.
func (m *Monitor) Close(ctx context.Context) error {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stream = nil
	}()
	return m.Driver().Close(ctx)
}

// Release is Close for a driver that may hang: it is closed when its call returns.
func (m *Monitor) Release() { release(m) }

// Stop ends calls of the driver and, once no scan is in progress, closes it. It does not wait for
// that: a wait for events lasts for seconds, and the end of the process closes the driver anyway.
func (m *Monitor) Stop(scans sync.Locker) {
	m.stop()
	m.releases.Go(func() {
		scans.Lock() // a scan in progress may still open a driver
		d := m.Driver()
		scans.Unlock()
		if d != nil {
			release(d)
		}
	})
}

// Wait waits until all drivers and streams are closed, after Stop: for tests.
func (m *Monitor) Wait() { m.releases.Wait() }

func release(closer interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = closer.Close(ctx) // what hangs ends when its call returns
}
