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

// Monitor owns the driver and its stream of events. Its methods may be called from any goroutine.
type Monitor struct {
	// Inbox receives the events.
	Inbox *Inbox
	// Ended is the context for calls of the driver; Stop cancels it.
	Ended context.Context //nolint:containedctx // scans have none of their own

	open   func(driver.Options) *driver.Driver
	stop   context.CancelFunc
	driver atomic.Pointer[driver.Driver]
	// releases are the goroutines that close drivers and streams.
	releases sync.WaitGroup

	mu sync.Mutex // guards all below
	// opened are the options of the driver.
	opened driver.Options
	stream *driver.Stream
	// subscribed are the UUIDs of the GPUs that stream was opened for.
	subscribed []string
}

// New returns a monitor that makes drivers with open, such as [driver.New].
func New(log *slog.Logger, open func(driver.Options) *driver.Driver) *Monitor {
	m := &Monitor{Inbox: newInbox(log), open: open}
	m.Ended, m.stop = context.WithCancel(context.Background())
	return m
}

// Driver returns the driver; nil before the first Use.
func (m *Monitor) Driver() *driver.Driver { return m.driver.Load() }

// Use returns the driver for these options. A driver with another library, root or procfs is closed
// and replaced.
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

// Subscribe subscribes to the events of all GPUs, unless it has done so for the same set of UUIDs;
// uuids must be sorted. isNew reports whether it subscribed: earlier events may be lost then.
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

// Close closes the driver and its stream. The driver can be opened again.
func (m *Monitor) Close(ctx context.Context) error {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stream = nil
	}()
	return m.Driver().Close(ctx)
}

// Release is Close with the time limit releaseLimit, for a driver that may hang.
func (m *Monitor) Release() { release(m) }

// Stop cancels the calls of the driver and, once no scan is in progress, closes it. It does not wait
// for that: a wait for events lasts for seconds, and the end of the process closes the driver anyway.
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

// Wait waits, after Stop, until all drivers and streams are closed. It is for tests.
func (m *Monitor) Wait() { m.releases.Wait() }

func release(closer interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = closer.Close(ctx) // a call that hangs ends on its own
}
