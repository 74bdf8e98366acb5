package sdk

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Reporter takes what a backend's loop has to say. It keeps the newest
// inventory and never waits for the core: who is slow to read misses
// intermediate inventories, never the last one. All methods may be called from
// any goroutine.
type Reporter struct {
	reconfigured chan struct{}

	publishing sync.Mutex // Publish calls never overlap; taken before mu

	mu        sync.Mutex
	newest    *inventory // replaced with publishing held, too
	accepted  uint64     // revision of the settings that were accepted last
	applied   uint64     // that of those which the loop goes by
	stale     bool       // one inventory may have been on its way since
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

// Publish hands over the whole inventory: all devices in a stable order, and up to 64
// problems, each about hardware that could not be listed. It copies them, so the caller may
// go on changing its own. Generations are counted here; an inventory that equals the one
// before, and follows from the same settings, gets none and is not sent. Publish also counts
// as a [Reporter.Beat].
func (r *Reporter) Publish(devices []*Device, problems ...string) {
	r.PublishInventory(Inventory{Devices: devices, Problems: problems})
}

// PublishInventory is [Reporter.Publish] for devices that consume of counter sets.
func (r *Reporter) PublishInventory(i Inventory) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	devices, refused := carried(i.Devices)
	// Beats and streams do not wait for the copy.
	old, next := r.newest, &inventory{Inventory: &backendv1.Inventory{Devices: devices, CounterSets: i.CounterSets}}
	problems := slices.Concat(i.Problems, refused)
	for _, p := range problems[:min(len(problems), maxProblems)] {
		next.Problems = append(next.Problems, clip(p, maxMessage))
	}
	next.Generation = old.number()
	if old != nil {
		next.SettingsRevision = old.SettingsRevision
	}
	changed := old == nil || !proto.Equal(old.Inventory, next.Inventory)
	if changed {
		next.Inventory, next.err = proto.CloneOf(next.Inventory), encodable(devices)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if revision := r.apply(); changed || old.SettingsRevision != revision {
		if !changed {
			next = &inventory{&backendv1.Inventory{Devices: old.Devices, CounterSets: old.CounterSets, Problems: old.Problems}, old.err}
		}
		next.Generation, next.SettingsRevision = old.number()+1, revision
		r.newest = next
	}
	r.beats++
	r.signal()
}

// Beat says that the loop has just gone round. Call it from that loop and from
// nowhere else: a timer beside it would hide that the loop is stuck.
func (r *Reporter) Beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats++
	r.signal()
}

// Pace is the longest that one round of the loop should take: half of the
// heartbeat interval that the core asked for, between 50 ms and 30 s. The core
// kills a backend that stays silent for three heartbeat intervals, six paces.
func (r *Reporter) Pace() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heartbeat / 2
}

// Reconfigured receives after new settings were accepted, the pace changed or
// [Reporter.Scan] was called. It holds one event; only the loop may receive from it.
func (r *Reporter) Reconfigured() <-chan struct{} { return r.reconfigured }

// accept takes note that settings were accepted, and tells the loop.
func (r *Reporter) accept(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted, r.stale = revision, true
	r.kick()
}

// apply is the revision that an inventory follows from which is published now.
// The loop goes by new settings from when it was told of them; a loop that does
// not listen has read its settings anew by the second inventory after them. The
// caller holds mu.
func (r *Reporter) apply() uint64 {
	if r.applied != r.accepted {
		if told := len(r.reconfigured) == 0; told || !r.stale {
			r.applied = r.accepted
		}
		r.stale = false
	}
	return r.applied
}

// kick makes the loop look at its settings and its pace.
func (r *Reporter) kick() {
	select {
	case r.reconfigured <- struct{}{}:
	default: // one is waiting already
	}
}

// setHeartbeat sets the interval that a stream asked for.
func (r *Reporter) setHeartbeat(d time.Duration) {
	r.mu.Lock()
	old := r.heartbeat
	r.heartbeat = d
	r.mu.Unlock()
	if old != d {
		r.kick()
	}
}

// state is what a stream needs to know, and a channel that is closed as soon as
// it is out of date.
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
