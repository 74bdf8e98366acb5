package nvidia

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/reset"
)

const (
	// releaseLimit bounds the closing of a driver.
	releaseLimit = 5 * time.Second
	// pendingLimit bounds the events that no scan has followed.
	pendingLimit = 4096
)

// monitor has what outlives a scan and a change of settings: the open driver, its events, and
// the records of the GPUs.
//
//	NVML: XID, ECC …  ──► pending ──► a scan at once judges them
//	NVML: MIG         ──────────────► a scan soon
//	MPS daemon        ──────────────► the devices are listed again
type monitor struct {
	log      *slog.Logger
	seams    seams
	resetter *reset.Runner
	mps      *mps.Client
	// driver is nil before the first scan.
	driver atomic.Pointer[driver.Driver]
	// atOnce and soon request a scan; each buffers one event.
	atOnce, soon chan struct{}
	// uevent: the kernel reported a change that no scan has followed.
	uevent atomic.Bool
	// ended is the context of scans; stop ends it.
	ended context.Context //nolint:containedctx // scans have none of their own
	stop  context.CancelFunc
	// releases close drivers after the loop has ended.
	releases sync.WaitGroup

	events sync.Mutex // guards pending
	// pending are the events that no scan has followed.
	pending []driver.Event

	scans sync.Mutex // locked during a scan and a reset; guards all below
	// opened are the options of driver.
	opened driver.Options
	stream *driver.Stream
	// subscribed are the UUIDs of the GPUs when stream began.
	subscribed []string
	made       made
	// records has the GPUs by UUID.
	records    records
	mismatched []mismatch
	// renew: the driver must be opened again to see which GPUs there are.
	renew bool
	// groups are the reset groups by UUID; see groupsOf.
	groups map[string]string
	// failed is why the last scan could not read the driver; failures counts such scans in a row.
	failed   error
	failures int
	// unloaded: the driver was unloaded at some time since the last scan that succeeded.
	unloaded bool
}

func newMonitor(log *slog.Logger, s seams) *monitor {
	m := &monitor{
		log: log, seams: s, resetter: reset.NewRunner(), mps: mps.NewClient(log, mps.DefaultTiming()),
		atOnce: make(chan struct{}, 1), soon: make(chan struct{}, 1), records: records{},
	}
	m.ended, m.stop = context.WithCancel(context.Background())
	return m
}

// run passes events to the engine until ctx ends, for [engine.Settings.Monitor].
func (m *monitor) run(ctx context.Context, e *engine.Engine) {
	for {
		then := func(engine.Known) { /* list again */ }
		select {
		case <-ctx.Done():
			return
		case <-m.atOnce:
			then = engine.Known.ScanNow
		case <-m.soon:
			then = engine.Known.Scan
		case <-m.mps.Changed():
		}
		if e.Do(ctx, then) != nil {
			return
		}
	}
}

// close stops all activity. It does not wait for the driver: a wait for events lasts for
// seconds, and the end of the process closes it anyway.
func (m *monitor) close() {
	m.stop()
	m.mps.Close()
	m.releases.Go(func() {
		m.scans.Lock()
		defer m.scans.Unlock()
		if d := m.driver.Load(); d != nil {
			release(d)
		}
	})
}

// reopen replaces the driver if the settings require that.
func (m *monitor) reopen(now driver.Options) *driver.Driver {
	before := m.driver.Load()
	if before != nil && now.Library == m.opened.Library && now.Root == m.opened.Root && now.ProcFS == m.opened.ProcFS {
		return before
	}
	if before != nil {
		m.releases.Go(func() { release(before) })
	}
	d := m.seams.open(now)
	m.driver.Store(d)
	m.opened, m.stream = now, nil
	return d
}

// release closes a driver. One that hangs is closed when its call returns.
func release(d *driver.Driver) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = d.Close(ctx)
}

// subscribe subscribes to the events of the GPUs with these UUIDs, instead of an earlier set
// of GPUs. It reports whether the subscription is new.
func (m *monitor) subscribe(d *driver.Driver, uuids []string) (isNew bool, err error) {
	if m.stream != nil && slices.Equal(uuids, m.subscribed) {
		return false, nil
	}
	stream, err := d.Listen(m.ended)
	if err != nil {
		return false, err
	}
	if before := m.stream; before != nil {
		m.releases.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
			defer cancel()
			_ = before.Close(ctx) // one that hangs ends when its call returns
		})
	}
	m.stream, m.subscribed = stream, uuids
	go func() {
		for event := range stream.Events() {
			m.hear(event)
		}
		signal(m.atOnce)
	}()
	return true, nil
}

// hear stores an event until a scan has followed it.
func (m *monitor) hear(event driver.Event) {
	switch event.Type {
	case driver.EventBroken:
		m.log.Warn("no events from the driver, GPUs are only scanned at the interval", "error", event.Err)
	case driver.EventMIG:
		m.log.Debug("the MIG devices of a GPU change", "gpu", event.GPU)
		signal(m.soon)
	case driver.EventMended:
		m.log.Info("events from the driver arrive again")
		signal(m.atOnce)
	default:
		m.log.Debug("event", "type", string(event.Type), "gpu", event.GPU, "xid", event.XID)
		m.events.Lock()
		defer m.events.Unlock()
		if len(m.pending) < pendingLimit {
			m.pending = append(m.pending, event)
		}
		signal(m.atOnce)
	}
}

// signal puts one event into a channel, unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// isPending reports whether there are events that no scan has followed.
func (m *monitor) isPending() bool {
	m.events.Lock()
	defer m.events.Unlock()
	return len(m.pending) > 0
}

// take removes and returns the events from before a time.
func (m *monitor) take(before time.Time) (taken []driver.Event) {
	m.events.Lock()
	defer m.events.Unlock()
	m.pending = slices.DeleteFunc(m.pending, func(e driver.Event) bool {
		if e.Time.After(before) {
			return false
		}
		taken = append(taken, e)
		return true
	})
	return taken
}
