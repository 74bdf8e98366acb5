package holders

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	// Resolve finds the device behind a unit that kubelet lists and that the book
	// does not know; false if there is none (yet). It is called without locks.
	Resolve func(resource, unit string) (inventory.Key, bool)
	// Owns, if set, says that a resource is ours though Resolve does not know the
	// unit, because its backend has not reported yet: until then the device with
	// that ID counts as held, whatever its backend.
	Owns func(resource string) bool
	// Checkpoint is the file in which kubelet's device manager stores its allocations,
	// usually /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint; "" for none.
	// Rewrite, if set, makes kubelet write it soon, by sending the list of devices again; it
	// must not block.
	Checkpoint string
	Rewrite    func()
	// Interval is how often kubelet is asked. Default 10 s.
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
	// Unseen is the same for an allocation that was never seen in a list, which
	// may be that of an init container, where kubelet's checkpoint does not end it.
	// Default 30 min.
	Unseen time.Duration
	// Settle is how long kubelet must have been up before its list may end an
	// allocation; ten times that if it lists no pod at all. Default 30 s.
	Settle time.Duration
	// Quiet is how long a kubelet that has just started is not asked: a List at that
	// moment can make it forget who holds what. Default 10 s.
	Quiet time.Duration
	// Timeout is the deadline of one List call. Default 5 s.
	Timeout time.Duration
	// Look is how long after an allocation kubelet is asked who it was for, so that
	// a short-lived pod is seen, too, and how far apart two lists are that end the hold
	// of a container that was listed. Default 1 s.
	Look time.Duration
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
	t.Look = cmp.Or(t.Look, time.Second)
	t.Spacing = cmp.Or(t.Spacing, 200*time.Millisecond)
	t.Write = cmp.Or(t.Write, 100*time.Millisecond)
	t.RetryMin = cmp.Or(t.RetryMin, time.Second)
	t.RetryMax = cmp.Or(t.RetryMax, time.Minute)
	return t
}

// Unit is what is allocated as one: a device, or one of its replicas.
type Unit struct {
	// ID is the device's, with ::N for a replica.
	ID     string
	Device inventory.Key
	// Prepared: the device is prepared before each start of the container, so that
	// [Book.Starting] is called for the unit.
	Prepared bool
	// Kin are the device's.
	Kin Kin
}

// Holder is a container that holds a device.
type Holder struct {
	// Namespace, Pod and Container are empty as long as kubelet has not listed
	// the allocation.
	Namespace, Pod, Container string
	// Resource and Unit are what the container was given it as.
	Resource, Unit string
	// Ending: kubelet no longer lists the container. The device stays allocated until
	// another list confirms that.
	Ending bool
}

// Book knows who holds which device. Its methods are safe for concurrent use
// and, but for Run, Store, Find and Close, wait neither for the disk nor for kubelet.
type Book struct {
	opts    Options
	log     *slog.Logger
	refresh chan struct{} // ask kubelet now
	soon    chan struct{} // ask kubelet when it has had time to note an allocation
	dirty   chan struct{} // the file is out of date
	ended   chan struct{} // unsettled has something that was not sent, or may be sent now
	changed chan struct{}
	endings chan []Ended
	lister  lister

	// asking is held by the one list call, and with it latest, which is kept while
	// others wait that may share it; waiting counts who asks or waits.
	asking  chan struct{} // 1 slot
	latest  *listing
	waiting atomic.Int32

	// saving is held by who writes the file.
	saving sync.Mutex

	mu    sync.Mutex
	holds map[unit]*hold
	// puts counts the holds that were added, and stored is its value in the file.
	puts, stored uint64
	closed       bool
	// byKey are the same holds by device; only devices that have some.
	byKey map[inventory.Key]map[unit]*hold
	// unsettled are the devices of holders that ended, until Settled; true once sent.
	unsettled map[Ended]bool
	// unresolved are IDs of devices that are listed for a resource of ours, but
	// that nobody knows yet.
	unresolved map[string]bool
	// listed are the units of kubelet's last list.
	listed map[unit][]holder
	// suspects may be held though nothing says so; gone once known.
	suspects map[inventory.Key]bool
	known    bool
	// lost says that what an earlier run noted cannot be read any more.
	lost  bool
	notes map[string]string
	// operations are the backends' on devices.
	operations operations
}

// unit is what kubelet gives out.
type unit struct{ resource, id string }

// hold is one unit that is given out.
type hold struct {
	key inventory.Key
	// holderID is the ID of the container's allocation.
	holderID string
	// since is when it was allocated, or first seen in a list.
	since time.Time
	// seen says that a list named it after that; holders are those of the latest.
	seen    bool
	holders []holder
	// missing is when the first list without it began; zero if the latest list has it, or no
	// list ever had it.
	missing time.Time
	// kin are the device's, as it was last listed.
	kin Kin
	// idle says that no container was started with it yet.
	idle bool
	// unannounced: the container was given no device whose start is announced.
	unannounced bool
}

type holder struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

// Open reads the book of an earlier run of this boot. A damaged file is moved
// aside and noted, never an error; the error is for options that are missing.
func Open(opts Options) (*Book, error) {
	if opts.Path == "" || opts.BootID == "" || opts.Socket == "" || opts.Resolve == nil {
		return nil, errors.New("open the usage book: a path, a boot ID, a socket and a way to resolve units are required")
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
		refresh: make(chan struct{}, 1), soon: make(chan struct{}, 1),
		dirty: make(chan struct{}, 1), ended: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		endings: make(chan []Ended),
		asking:  make(chan struct{}, 1),
		lister:  &podResources{socket: opts.Socket, quiet: opts.Timing.withDefaults().Quiet},
		holds:   map[unit]*hold{}, byKey: map[inventory.Key]map[unit]*hold{},
		unsettled: map[Ended]bool{}, suspects: map[inventory.Key]bool{}, notes: map[string]string{},
		operations: operations{byDevice: map[inventory.Key]*operation{}},
	}
	b.load()
	return b, nil
}

// allocate gives the units to a new holder. The caller holds b.mu.
func (b *Book) allocate(resource string, units []Unit) {
	now, holder := b.opts.Now(), newHolder()
	holds := make([]hold, len(units))
	unannounced := !slices.ContainsFunc(units, func(u Unit) bool { return u.Prepared })
	for i, u := range units {
		holds[i] = hold{key: u.Device, kin: u.Kin, holderID: holder, since: now, idle: u.Prepared, unannounced: unannounced}
		name := unit{resource: resource, id: u.ID}
		b.put(name, &holds[i])
	}
	signal(b.dirty)
	signal(b.changed)
	signal(b.soon)
}

// Return takes back what Take gave: the allocation was refused after all, so no container
// has these units. One that kubelet has listed meanwhile, or that stands for another
// device, stays.
func (b *Book) Return(resource string, units []Unit) {
	b.mu.Lock()
	for _, u := range units {
		name := unit{resource: resource, id: u.ID}
		if h := b.holds[name]; h != nil && h.key == u.Device && !h.seen {
			b.drop(name)
		}
	}
	b.mu.Unlock()
	signal(b.dirty)
	signal(b.changed)
}

// put adds a hold, which replaces the one that the unit had. The caller holds b.mu.
func (b *Book) put(u unit, h *hold) {
	if b.holds[u] != nil {
		defer b.end(b.holds[u])
		b.remove(u)
	}
	b.holds[u] = h
	b.puts++
	if b.byKey[h.key] == nil {
		b.byKey[h.key] = map[unit]*hold{}
	}
	b.byKey[h.key][u] = h
}

// drop ends the hold of a unit. The caller holds b.mu.
func (b *Book) drop(u unit) {
	h := b.holds[u]
	b.remove(u)
	b.end(h)
}

// remove removes the hold of a unit. The caller holds b.mu.
func (b *Book) remove(u unit) {
	key := b.holds[u].key
	delete(b.holds, u)
	delete(b.byKey[key], u)
	if len(b.byKey[key]) == 0 {
		delete(b.byKey, key)
	}
}

// Suspect adds devices that may be held though the book does not say so, such as
// those with a CDI definition of an earlier run. They count as held until the
// book is complete; see [Book.Known].
func (b *Book) Suspect(keys ...inventory.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known {
		return
	}
	for _, key := range keys {
		b.suspects[key] = true
	}
}

// Held reports whether a container holds the device, or may hold it.
func (b *Book) Held(key inventory.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held(key)
}

// held is Held for a caller that holds b.mu.
func (b *Book) held(key inventory.Key) bool {
	return len(b.byKey[key]) > 0 || b.suspects[key] || b.unresolved[key.ID]
}

// Known reports whether the book is complete: kubelet's list has been seen since
// we started. Before, an allocation of which we were stopped before noting it may
// be missing.
func (b *Book) Known() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

// Changed tells that an answer of Held, Known or Holders may have changed. The
// channel holds one signal.
func (b *Book) Changed() <-chan struct{} { return b.changed }

// Refresh asks kubelet soon instead of at the next interval. It does not wait.
func (b *Book) Refresh() { signal(b.refresh) }

// Notes are what an operator must know, a sentence each.
func (b *Book) Notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var notes []string
	for _, topic := range slices.Sorted(maps.Keys(b.notes)) {
		notes = append(notes, b.notes[topic])
	}
	return notes
}

// note sets what is to be said of a topic; "" for nothing.
func (b *Book) note(topic, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text == "" {
		delete(b.notes, topic)
		return
	}
	b.notes[topic] = text
}

// signal puts one signal into the channel, unless one is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
