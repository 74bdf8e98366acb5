package holders

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// Options of [Open]. Path, BootID, Socket and Resolve are required.
type Options struct {
	// Path is the state file.
	Path string
	// BootID is the kernel's identification of this boot.
	BootID string
	// Socket is kubelet's pod-resources socket, usually
	// /var/lib/kubelet/pod-resources/kubelet.sock. It need not exist.
	Socket string
	// Resolve returns the device of a unit that kubelet lists and that the book does not
	// have; false if there is none yet. It is called without locks.
	Resolve func(resource, unit string) (inventory.Key, bool)
	// Owns, if set, reports whether a resource is configured though Resolve does not find
	// the unit, as its backend has not reported yet. Until then the device with that ID
	// counts as held, whatever its backend.
	Owns func(resource string) bool
	// ResetAfterUse, if set, reports whether a device whose last holder ended must be reset before it has
	// another one. True for one of which that is not known yet. It must not call the book.
	ResetAfterUse func(device inventory.Key) bool
	// Checkpoint is the file in which kubelet's device manager stores its allocations,
	// usually /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint; "" for none.
	// Rewrite, if set, makes kubelet write it soon, by sending the list of devices again; it
	// must not block.
	Checkpoint string
	Rewrite    func()
	// Interval is how often kubelet's pods are listed. Default 10 s.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Timing is for tests; the zero value is right.
	Timing Timing
	// Disk writes the file; a test may let it fail.
	Disk checkpoint.Writer
}

// Timing are the book's other intervals. Zero means the default.
type Timing struct {
	// Grace is the minimum age of an allocation that a single list may end; two lists end it
	// at any age. Default 30 s.
	Grace time.Duration
	// Unseen is the same for an allocation that was never listed, which may be that of an
	// init container, if kubelet's checkpoint does not end it. Default 30 min.
	Unseen time.Duration
	// Settle is how long kubelet must have been up before its list may end an
	// allocation; ten times that if it lists no pod at all. Default 30 s.
	Settle time.Duration
	// Quiet is how long a kubelet that has just started gets no List call: one at that
	// moment can make it forget allocations. Default 10 s.
	Quiet time.Duration
	// Timeout is the deadline of one List call. Default 5 s.
	Timeout time.Duration
	// Confirm is the time from an allocation to a list, so that a short-lived pod is listed
	// too, and between the two lists that end an allocation that was listed before.
	// Default 1 s.
	Confirm time.Duration
	// Spacing is the least time between two calls: kubelet serves 100 a second to
	// all its clients together. Default 200 ms.
	Spacing time.Duration
	// Write is the least time between two writes of the file: the first allocation is
	// on disk at once, those that follow closely go together. Default 100 ms.
	Write time.Duration
	// RetryMin and RetryMax bound the pause after a failed call or write, which
	// doubles with each failure. Defaults 1 s and 1 min.
	RetryMin, RetryMax time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Grace = cmp.Or(t.Grace, 30*time.Second)
	t.Unseen = max(cmp.Or(t.Unseen, 30*time.Minute), t.Grace)
	t.Settle = cmp.Or(t.Settle, 30*time.Second)
	t.Quiet = cmp.Or(t.Quiet, 10*time.Second)
	t.Timeout = cmp.Or(t.Timeout, 5*time.Second)
	t.Confirm = cmp.Or(t.Confirm, time.Second)
	t.Spacing = cmp.Or(t.Spacing, 200*time.Millisecond)
	t.Write = cmp.Or(t.Write, 100*time.Millisecond)
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, time.Minute)
	return t
}

// Book knows who holds which device, and which operations are in progress. Its methods are
// safe for concurrent use. Run, Find, ListedCDI and Allocatable wait for kubelet. Run, Find, Store and
// Close wait for the disk. Take, TakeClaim, BeginPrepare, BeginRelease and Drain wait for operations. The
// others do not wait.
type Book struct {
	opts    Options
	log     *slog.Logger
	poller  *poller
	file    file
	changed chan struct{}

	// mu guards all that follows.
	mu sync.Mutex
	// allocations has every unit that a holder has, and byDevice the same by device.
	allocations map[unitName]*allocation
	byDevice    map[inventory.Key]map[unitName]*allocation
	operations  operations
	// due has the devices whose reset after use is due (after_use.go).
	due         map[inventory.Key]*operation
	ended       endedDevices
	unconfirmed unconfirmed
	// unread are claims whose devices are not known, with what finds the device of a CDI name.
	unread map[Claim]func(name string) (inventory.Key, bool)
	// changes counts the allocations of containers that were added, those of claims that ended and
	// whose end is stored, and the resets after use that became due or were done.
	changes uint64
	closed  bool
	// notes are problems by topic.
	notes map[string]string
}

// Open reads the book of an earlier run of this boot. A damaged file is moved aside and
// reported in Notes, never an error; the error is for options that are missing.
func Open(opts Options) (*Book, error) {
	if opts.Path == "" || opts.BootID == "" || opts.Socket == "" || opts.Resolve == nil {
		return nil, errors.New("open the book of holders: a path, a boot ID, a socket and a way to resolve units are required")
	}
	opts.Interval = cmp.Or(opts.Interval, 10*time.Second)
	opts.Timing = opts.Timing.withDefaults()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	b := &Book{
		opts: opts, log: opts.Log,
		poller: newPoller(&podResources{socket: opts.Socket, quiet: opts.Timing.Quiet}),
		file:   file{outdated: make(chan struct{}, 1)}, changed: make(chan struct{}, 1),
		allocations: map[unitName]*allocation{}, byDevice: map[inventory.Key]map[unitName]*allocation{},
		operations: operations{byDevice: map[inventory.Key]*operation{}}, due: map[inventory.Key]*operation{},
		ended:       endedDevices{sent: map[Ended]bool{}, added: make(chan struct{}, 1), out: make(chan []Ended), released: make(chan struct{})},
		unconfirmed: unconfirmed{suspects: map[inventory.Key]bool{}}, notes: map[string]string{},
		unread: map[Claim]func(string) (inventory.Key, bool){},
	}
	b.load()
	return b, nil
}

// Held reports whether a holder has the device, or may have it.
func (b *Book) Held(device inventory.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held(device)
}

// held is Held for a caller that holds b.mu.
func (b *Book) held(device inventory.Key) bool {
	return len(b.byDevice[device]) > 0 || b.unconfirmed.has(device)
}

// Changed is signalled when the result of another method may have changed. The channel
// holds one signal.
func (b *Book) Changed() <-chan struct{} { return b.changed }

// Notes returns the problems that an operator must know.
func (b *Book) Notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var notes []string
	for _, topic := range slices.Sorted(maps.Keys(b.notes)) {
		notes = append(notes, b.notes[topic])
	}
	return notes
}

// note sets the problem of a topic; "" for none.
func (b *Book) note(topic, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text == "" {
		delete(b.notes, topic)
		return
	}
	b.notes[topic] = text
}
