package sdk

import (
	"slices"
	"sync"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Reporter receives the inventories of a backend's loop. It stores the newest and never waits
// for the core: a slow reader misses intermediate inventories, never the last one. All methods
// may be called from any goroutine.
type Reporter struct {
	reconfigured chan struct{}

	publishing sync.Mutex // Publish calls never overlap; taken before mu
	// encoded has the encoded fields of immutable devices, also of some that are no longer
	// published; guarded by publishing.
	encoded map[*Device][]byte

	mu        sync.Mutex
	newest    *inventory // replaced with publishing held, too
	accepted  uint64     // revision of the settings that were accepted last
	applied   uint64     // that of the settings which the loop uses
	stale     bool       // one inventory may have been in progress since
	beats     uint64
	heartbeat time.Duration
	changed   chan struct{} // closed and replaced when a stream has something to do
}

func newReporter() *Reporter {
	return &Reporter{
		reconfigured: make(chan struct{}, 1),
		heartbeat:    backendplugin.DefaultHeartbeat,
		changed:      make(chan struct{}),
	}
}

// Publish publishes the whole inventory: all devices in a stable order, and up to 64 problems,
// each about hardware that could not be listed. It copies them, so the caller may change them
// afterwards. Publish also counts the generations; an inventory that equals the one before, and
// follows from the same settings, gets none and is not sent. Publish also counts as a
// [Reporter.Beat].
func (r *Reporter) Publish(devices []*Device, problems ...string) {
	r.PublishInventory(Inventory{Devices: devices, Problems: problems})
}

// PublishInventory is [Reporter.Publish] for inventories with more than devices and problems.
func (r *Reporter) PublishInventory(i Inventory) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	devices, refused := carried(i.Devices)
	labels, invalid := validLabels(i.NodeLabels)
	rest := &backendv1.Inventory{CounterSets: i.CounterSets, NodeLabels: labels, Unread: unreadEntries(i.Unread)}
	problems := slices.Concat(i.Problems, refused, invalid)
	for _, p := range problems[:min(len(problems), maxProblems)] {
		rest.Problems = append(rest.Problems, clip(p, maxMessage))
	}
	if !i.Immutable {
		r.encoded = nil
	} else if r.encoded == nil || len(r.encoded) > 2*len(devices) {
		r.encoded = make(map[*Device][]byte, len(devices))
	}
	size := 0
	if r.newest != nil {
		size = len(r.newest.encoded) + 4<<10
	}
	next := encode(devices, rest, r.encoded, size) // beats and streams do not wait for it

	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.newest
	if revision := r.apply(); !old.equal(next) || old.revision != revision {
		next.generation, next.revision = old.number()+1, revision
		r.newest = next
	}
	r.beats++
	r.signal()
}

// Beat reports that the loop has completed a round. Call it from that loop and from nowhere
// else: a timer beside it would hide that the loop hangs.
func (r *Reporter) Beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats++
	r.signal()
}

// Pace returns how long one round of the loop should take at most: half of the heartbeat
// interval that the core requested, between 50 ms and 30 s. The core kills a backend that sends
// nothing for three heartbeat intervals, six paces.
func (r *Reporter) Pace() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heartbeat / 2
}

// Reconfigured receives after new settings were accepted, the pace changed or
// [Reporter.Scan] was called. It holds one event; only the loop may receive from it.
func (r *Reporter) Reconfigured() <-chan struct{} { return r.reconfigured }

// accept records that settings were accepted, and wakes the loop.
func (r *Reporter) accept(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted, r.stale = revision, true
	r.kick()
}

// apply returns the settings revision of an inventory that is published now. The loop uses new
// settings once it received from reconfigured; a loop that never does has read them again by its
// second inventory after that. The caller holds mu.
func (r *Reporter) apply() uint64 {
	if r.applied != r.accepted {
		if received := len(r.reconfigured) == 0; received || !r.stale {
			r.applied = r.accepted
		}
		r.stale = false
	}
	return r.applied
}

// kick makes the loop read its settings and its pace again.
func (r *Reporter) kick() {
	select {
	case r.reconfigured <- struct{}{}:
	default: // one is already waiting
	}
}

// setHeartbeat sets the interval that a stream requested.
func (r *Reporter) setHeartbeat(d time.Duration) {
	r.mu.Lock()
	old := r.heartbeat
	r.heartbeat = d
	r.mu.Unlock()
	if old != d {
		r.kick()
	}
}

// state returns the state that a stream sends, and a channel that is closed when it changes.
func (r *Reporter) state() (newest *inventory, beats uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest, r.beats, r.changed
}

// signal wakes the streams. The caller holds mu.
func (r *Reporter) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}
