package health

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
	"github.com/accelmux/accelmux/core/text"
)

const (
	// DefaultHoldover is the holdover of a backend without a policy.
	DefaultHoldover = 5 * time.Minute
	// DefaultDelay is the delay of a backend without a policy.
	DefaultDelay = 3 * time.Second

	// maxAbsent bounds the stored devices of each backend that are not listed; those seen last
	// stay. It is more than a backend may list, because no device is listed after a start.
	maxAbsent = inventory.MaxDevices + 2000
	// maxParents bounds the levels of parents above a partition; inventory refuses more.
	maxParents = 8
	// maxLogged is how many devices one call of Judge logs.
	maxLogged = 32
)

// Options configure a [Judge].
type Options struct {
	// Path is the state file. Its directory is created if it is missing. Required.
	Path string
	// BootID identifies the boot of the machine; see [BootID]. Required.
	BootID string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log is nil for none.
	Log *slog.Logger
}

// BackendPolicy configures the verdicts on the devices of one backend.
type BackendPolicy struct {
	// Holdover is how long the verdicts stay when the backend is lost.
	Holdover time.Duration
	// Delay is how long a fault must stay cleared before it is removed.
	Delay time.Duration
}

var nothing = &inventory.Snapshot{}

// Judge stores faults and computes verdicts. Its methods are safe for concurrent use, but
// only one goroutine may call Judge and Close.
type Judge struct {
	now func() time.Time
	log *slog.Logger

	mu       sync.Mutex
	records  map[inventory.Key]*record
	policies map[string]BackendPolicy
	// handled is the Backend.Generation up to which reports were taken.
	handled map[string]uint64
	snap    *inventory.Snapshot // of the latest call of Judge
	pass    uint64              // number of the current call of Judge
	// version grows with every change that the state file stores.
	version uint64
	logged  int
	absent  int // maxAbsent, but for tests

	file *stateFile
}

// Open reads the state file. A file of an earlier boot counts as empty: backends report
// again what is still wrong. One that cannot be read is renamed to <path>.corrupt and
// named in [Judge.Notes]. Open fails only if a required option is missing.
func Open(o Options) (*Judge, error) {
	if o.Path == "" || o.BootID == "" {
		return nil, errors.New("open health state: both a path and a boot ID are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	j := &Judge{
		now: o.Now, log: o.Log,
		absent:   maxAbsent,
		policies: map[string]BackendPolicy{}, handled: map[string]uint64{},
		file: &stateFile{path: o.Path, bootID: o.BootID, log: o.Log, write: checkpoint.Writer{Unsynced: true}.Write},
	}
	var outdated bool
	if j.records, outdated = j.file.open(j.now()); outdated {
		j.version++
	}
	j.prune()
	return j, nil
}

// Notes returns problems with the state file.
func (j *Judge) Notes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.problems()
}

// SetPolicies replaces all policies. They apply from the next Judge on.
func (j *Judge) SetPolicies(policies map[string]BackendPolicy) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.policies = maps.Clone(policies)
}

// ResetDone takes the result of a reset of a device; call Judge afterwards. If it
// recovered the device, faults that need no more than a reset are cleared as soon as
// the backend does not report them any more. If not, the message is added to
// them. A device without faults does not change.
//
// A reset of one partition is no evidence about its parent, unless the parent is not listed
// and the reset group contains all its partitions.
func (j *Judge) ResetDone(k inventory.Key, recovered bool, message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	message = text.Cut(message, maxMessage)
	for _, key := range append(j.unlistedParent(k), k) {
		r := j.records[key]
		if r != nil && r.resetDone(recovered, message, now) {
			j.version++
			if log := j.log.With("backend", key.Backend, "device", key.ID, "message", message); recovered {
				log.Info("device was reset")
			} else {
				log.Warn("device has not recovered by a reset")
			}
		}
	}
}

// Excuse takes back that a device fell, if it has a fault that began at that time or later: it was reset
// after use, and its backend reports that as a fault meanwhile. Else a device with many short users
// would count as flapping.
func (j *Judge) Excuse(k inventory.Key, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.records[k]
	if r != nil && r.falls > 0 && slices.ContainsFunc(r.faults, func(f *fault) bool { return !f.since.Before(began) }) {
		r.falls--
	}
}

// Judge computes the verdicts on a snapshot. It is idempotent: unless something happened, the
// verdicts are the same again. A nil snapshot counts as an empty one.
//
// The state file has every change when Judge returns, so that a process that is killed at
// any later moment forgets no fault that was reported to kubelet. If the file cannot be
// written, the verdicts hold all the same; [Judge.Notes] has the problem, and View.Next is
// not after the next attempt.
func (j *Judge) Judge(snap *inventory.Snapshot) *View {
	if snap == nil {
		snap = nothing
	}
	view := j.judge(snap)
	view.Next = earlier(view.Next, j.save(false))
	return view
}

func (j *Judge) judge(snap *inventory.Snapshot) *View {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	j.logged = 0
	next := j.take(snap, now)
	j.snap = snap
	if over := j.logged - maxLogged; over > 0 {
		j.log.Warn("more changes of health not logged", "devices", over)
	}
	return &View{Generation: snap.Generation, Next: next, faults: j.verdicts(snap, now)}
}

// Close saves what is not saved yet.
func (j *Judge) Close() error {
	j.save(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.err
}

// take updates the records from the snapshot. It returns when the next delay or holdover
// ends.
func (j *Judge) take(snap *inventory.Snapshot, now time.Time) (next time.Time) {
	j.pass++
	for _, b := range snap.Backends {
		j.reportSuperseded(b, now)
		if !b.LostAt.IsZero() {
			j.reportLast(b, now)
			if end := b.LostAt.Add(j.policy(b.Name).Holdover); end.After(now) {
				next = earlier(next, end)
			}
			continue // its devices are not monitored, so no delay passes
		}
		j.reportAll(b, now)
		for k, h := range j.unlistedParents(b) {
			j.report(k, h, now)
			j.present(k, now)
		}
		next = earlier(next, j.expire(b, now))
	}
	for _, r := range j.records {
		if r.pass != j.pass {
			r.listed = false
		}
	}
	j.prune()
	return next
}

func (j *Judge) record(k inventory.Key) *record {
	r := &record{seen: j.now()}
	j.records[k] = r
	return r
}

// present marks a device as listed.
func (j *Judge) present(k inventory.Key, now time.Time) {
	r := j.records[k]
	if r == nil {
		return
	}
	if !r.listed {
		r.restartDelays(now)
	}
	r.listed, r.pass, r.seen = true, j.pass, now
}

// unlistedParents returns the parents with faults that are not listed, each with the health
// that follows from its partitions.
func (j *Judge) unlistedParents(b *inventory.Backend) map[inventory.Key]inventory.Health {
	var out map[inventory.Key]inventory.Health
	var unread []inventory.Key
	for _, d := range b.Devices {
		if d.Health.Unread != "" {
			unread = append(unread, d.Key, inventory.Key{Backend: b.Name, ID: d.Parent})
		}
		if d.Parent == "" {
			continue
		}
		k := inventory.Key{Backend: b.Name, ID: d.Parent}
		if r := j.records[k]; r == nil || r.pass == j.pass {
			continue
		}
		h, ok := out[k]
		if !ok {
			h = inventory.Health{State: inventory.StateHealthy, Recovered: true, Cleared: d.Health.Cleared}
		}
		if d.Health.State != inventory.StateHealthy {
			h.State = inventory.StateUnknown
		}
		h.Recovered = h.Recovered && d.Health.Recovered
		h.Cleared = h.Cleared.And(d.Health.Cleared)
		if out == nil {
			out = map[inventory.Key]inventory.Health{}
		}
		out[k] = h
	}
	for _, k := range unread {
		delete(out, k) // it is not listed, but not because it is gone, or not all its partitions reported
	}
	return out
}

// unlistedParent returns the parent that a reset of k resets, too, if there is one.
func (j *Judge) unlistedParent(k inventory.Key) []inventory.Key {
	if j.snap == nil {
		return nil
	}
	i := slices.IndexFunc(j.snap.Backends, func(b *inventory.Backend) bool { return b.Name == k.Backend })
	if i < 0 {
		return nil
	}
	devices := j.snap.Backends[i].Devices
	i = slices.IndexFunc(devices, func(d *inventory.Device) bool { return d.ID == k.ID })
	if i < 0 || devices[i].Parent == "" {
		return nil
	}
	self := devices[i]
	for _, d := range devices {
		together := d == self || self.ResetGroup != "" && d.ResetGroup == self.ResetGroup
		if d.ID == self.Parent || d.Parent == self.Parent && !together {
			return nil
		}
	}
	return []inventory.Key{{Backend: k.Backend, ID: self.Parent}}
}

// expire removes the cleared faults of listed devices whose delay has passed. It returns when
// the next delay ends.
func (j *Judge) expire(b *inventory.Backend, now time.Time) (next time.Time) {
	delay := j.policy(b.Name).Delay
	for k, r := range j.records {
		if k.Backend != b.Name || r.pass != j.pass {
			continue
		}
		gone, end := r.expire(delay, now)
		next = earlier(next, end)
		for _, f := range gone {
			j.version++
			j.logChange(j.log.Info, "fault of device cleared", k, f.code, f.recovery)
		}
	}
	return next
}

// prune removes records without content, and of each backend the absent devices beyond the
// bound, those first that were seen longest ago.
func (j *Judge) prune() {
	absent := map[string][]inventory.Key{}
	for k, r := range j.records {
		switch {
		case len(r.faults) == 0 && (!r.listed || j.now().Sub(r.healthySince) >= flapWindow):
			delete(j.records, k)
		case !r.listed:
			absent[k.Backend] = append(absent[k.Backend], k)
		}
	}
	for backend, keys := range absent {
		over := len(keys) - j.absent
		if over <= 0 {
			continue
		}
		slices.SortFunc(keys, func(a, b inventory.Key) int {
			return cmp.Or(j.records[a].seen.Compare(j.records[b].seen), cmp.Compare(a.ID, b.ID))
		})
		for _, k := range keys[:over] {
			delete(j.records, k)
			j.version++
		}
		j.log.Warn("too many absent devices, faults of the oldest forgotten", "backend", backend, "devices", over)
	}
}

func (j *Judge) policy(backend string) BackendPolicy {
	if p, ok := j.policies[backend]; ok {
		return p
	}
	return BackendPolicy{Holdover: DefaultHoldover, Delay: DefaultDelay}
}

func (j *Judge) logChange(log func(string, ...any), message string, k inventory.Key, code string, recovery inventory.Recovery) {
	if j.logged++; j.logged <= maxLogged {
		log(message, "backend", k.Backend, "device", k.ID, "code", code, "recovery", recovery.String())
	}
}
