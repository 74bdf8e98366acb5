package holders

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
)

// Options of [Open]. Path, BootID, Kubelet and Resolve are required.
type Options struct {
	// Path is the state file. Beside it is the directory of the claims.
	Path string
	// BootID is the kernel's identification of this boot.
	BootID string
	// Kubelet lists its pods for the book alone.
	Kubelet *podresources.Kubelet
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
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Timing is for tests; the zero value is right.
	Timing Timing
	// Disk writes the file; a test may let it fail.
	Disk checkpoint.Writer
}

// Timing are the book's intervals. Zero means the default.
type Timing struct {
	// Write is the least time between two writes of the file: the first allocation is
	// on disk at once, those that follow closely go together. Default 100 ms.
	Write time.Duration
	// RetryMin and RetryMax bound the pause after a failed write, which
	// doubles with each failure. Defaults 1 s and 1 min.
	RetryMin, RetryMax time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Write = cmp.Or(t.Write, 100*time.Millisecond)
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, time.Minute)
	return t
}

// Book knows who holds which device, and which operations are in progress. Its methods are
// safe for concurrent use. Find waits for kubelet. Run, Store and Close wait for the disk. Take, TakeClaim, BeginPrepare, BeginRelease and Drain wait for operations. The
// others do not wait.
type Book struct {
	opts    Options
	log     *slog.Logger
	file    file
	changed chan struct{}

	// mu guards all that follows.
	mu sync.Mutex
	// allocations has every unit that a holder has, and byDevice the same by device.
	allocations map[podresources.Unit]*allocation
	byDevice    map[inventory.Key]map[podresources.Unit]*allocation
	operations  operations
	// due has the devices whose reset after use is due (after_use.go).
	due         map[inventory.Key]*operation
	ended       endedDevices
	unconfirmed unconfirmed
	claims      claims
	// changes counts the allocations of containers that were added, those of claims that ended and
	// whose end is stored, and the resets after use that became due or were done.
	changes uint64
	closed  bool
	// notes are problems by topic.
	notes map[string]string
}

// Open reads the book of an earlier run of this boot. A damaged file is moved aside and
// reported in Notes, never an error; the error is for options that are missing, and for a directory of claims that cannot
// be read.
func Open(opts Options) (*Book, error) {
	if opts.Path == "" || opts.BootID == "" || opts.Kubelet == nil || opts.Resolve == nil {
		return nil, errors.New("open the book of holders: a path, a boot ID, kubelet and a way to resolve units are required")
	}
	opts.Timing = opts.Timing.withDefaults()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	b := &Book{
		opts: opts, log: opts.Log,
		file: file{outdated: make(chan struct{}, 1)}, changed: make(chan struct{}, 1),
		allocations: map[podresources.Unit]*allocation{}, byDevice: map[inventory.Key]map[podresources.Unit]*allocation{},
		operations: operations{byDevice: map[inventory.Key]*operation{}}, due: map[inventory.Key]*operation{},
		ended:       endedDevices{sent: map[Ended]bool{}, added: make(chan struct{}, 1), out: make(chan []Ended), released: make(chan struct{})},
		unconfirmed: unconfirmed{suspects: map[inventory.Key]bool{}}, notes: map[string]string{},
	}
	b.claims.open(filepath.Join(filepath.Dir(opts.Path), "claims"))
	b.load()
	if err := b.loadClaims(); err != nil {
		return nil, err
	}
	opts.Kubelet.Follow(b.apply)
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
