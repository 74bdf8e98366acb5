package nvidia

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
)

// releaseLimit bounds the closing of a driver or a stream.
const releaseLimit = 5 * time.Second

// connection is the connection to NVIDIA's driver and its events. It outlives scans and changes of settings. Its methods may be
// called from any goroutine.
type connection struct {
	log  *slog.Logger
	make func(driver.Options) *driver.Driver
	// ended is the context for calls of the driver; end cancels it.
	ended context.Context //nolint:containedctx // scans have none of their own
	stop  context.CancelFunc
	// retry: the kernel has reported a change, so a mismatch may end if the driver is opened again.
	retry atomic.Bool
	// loads counts how often the driver was found unloaded.
	loads atomic.Uint64
	// begun counts the readings of GPUs that were begun.
	begun  atomic.Uint64
	driver atomic.Pointer[driver.Driver]
	// subscribed signals that there is another stream.
	subscribed chan struct{}
	// scanning is locked during a scan. failed is why the last one could not read the driver; "" if it could.
	scanning sync.Mutex
	failed   string
	// releases are the goroutines that close drivers and streams.
	releases sync.WaitGroup

	mu sync.Mutex // guards all below
	// opened are the options of the driver.
	opened driver.Options
	stream *driver.Stream
	// gpus are the UUIDs of the GPUs that stream was opened for.
	gpus []string
	// mismatched are the mismatches that were there when the driver was opened.
	mismatched []gpu.Mismatch
}

func newConnection(log *slog.Logger, open func(driver.Options) *driver.Driver) *connection {
	c := &connection{log: log, make: open, subscribed: make(chan struct{}, 1)}
	c.ended, c.stop = context.WithCancel(context.Background())
	return c
}

// use returns the driver for these options. A driver with another library, root or procfs is closed and replaced.
func (c *connection) use(options driver.Options) *driver.Driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.driver.Load()
	if before != nil && options.Library == c.opened.Library && options.Root == c.opened.Root && options.ProcFS == c.opened.ProcFS {
		return before
	}
	if before != nil {
		c.releases.Go(func() { release(before) })
	}
	d := c.make(options)
	c.driver.Store(d)
	c.opened, c.stream = options, nil
	return d
}

// reopen closes the driver if another listing may end the mismatches: NVML lists the GPUs that there are when it is opened. It
// reports whether it did.
func (c *connection) reopen(mismatched []gpu.Mismatch) bool {
	retry := c.retry.Swap(false)
	c.mu.Lock()
	same := slices.Equal(mismatched, c.mismatched) && !retry
	c.mismatched = mismatched
	c.mu.Unlock()
	if same || len(mismatched) == 0 {
		return false
	}
	release(c)
	return true
}

// subscribe subscribes to the events of all GPUs of a snapshot, unless it has done so for the same, with success. isNew reports
// whether it subscribed for others than before: earlier events may be lost then. unregistered is why GPUs send none, by UUID.
func (c *connection) subscribe(s driver.Snapshot) (isNew bool, unregistered map[string]error, err error) {
	var uuids []string
	for _, g := range s.GPUs {
		if g.UUID != "" {
			uuids = append(uuids, g.UUID)
		}
	}
	slices.Sort(uuids)
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.stream != nil && slices.Equal(uuids, c.gpus)
	failed := func(g driver.GPU) bool { return g.Err == nil && c.stream.Unsubscribed()[g.UUID] != nil }
	if same && !slices.ContainsFunc(s.GPUs, failed) {
		return false, nil, nil
	}
	stream, err := c.driver.Load().Listen(c.ended)
	if err != nil {
		return false, nil, err
	}
	if before := c.stream; before != nil {
		c.releases.Go(func() { release(before) })
	}
	c.stream, c.gpus = stream, uuids
	select {
	case c.subscribed <- struct{}{}:
	default: // the event goroutine has not seen the one before yet
	}
	return !same, stream.Unsubscribed(), nil
}

// events returns those of the present stream; nil if there is none.
func (c *connection) events() <-chan driver.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return nil
	}
	return c.stream.Events()
}

// Close closes the driver and its stream. The driver can be opened again.
func (c *connection) Close(ctx context.Context) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stream = nil
	}()
	return c.driver.Load().Close(ctx)
}

// logFailure logs that scans cannot read the driver because of err, or can again; once each.
func (c *connection) logFailure(err error) {
	switch before := c.failed; {
	case err == nil && before != "":
		c.log.Info("NVIDIA's driver can be read again")
		c.failed = ""
	case err != nil && before != err.Error():
		c.log.Info("NVIDIA's driver cannot be read, trying again", "error", err)
		c.failed = err.Error()
	}
}

// end cancels the calls of the driver and, once no scan is in progress, closes it. It does not wait for that: a wait for events
// lasts for seconds, and the end of the process closes the driver anyway.
func (c *connection) end() {
	c.stop()
	c.releases.Go(func() {
		c.scanning.Lock() // a scan in progress may still open a driver
		d := c.driver.Load()
		c.scanning.Unlock()
		if d != nil {
			release(d)
		}
	})
}

func release(closer interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = closer.Close(ctx) // a call that hangs ends on its own
}
