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
)

const (
	// DefaultHoldover holds for a backend without a policy.
	DefaultHoldover = 5 * time.Minute
	// DefaultDelay holds for a backend without a policy.
	DefaultDelay = 3 * time.Second

	// maxAbsent is how many devices that are not listed are remembered for each
	// backend; those seen last are kept. It is more than a backend may list, as
	// after a start nothing is listed.
	maxAbsent = inventory.MaxDevices + 2000
	// maxParents bounds the way up from a partition; inventory refuses more.
	maxParents = 8
	// maxLogged is how many devices one call of Judge logs.
	maxLogged = 32
)

// Options configure a [Judge].
type Options struct {
	// Path is the state file. Its directory is made if it is missing. Required.
	Path string
	// BootID tells one boot of the machine from the next; see [BootID]. Required.
	BootID string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log is nil for none.
	Log *slog.Logger
}

// BackendPolicy is how the devices of one backend are judged.
type BackendPolicy struct {
	// Holdover is how long the verdicts stand when the backend is lost.
	Holdover time.Duration
	// Delay is how long a device must stay sound before a fault is gone.
	Delay time.Duration
}

var nothing = &inventory.Snapshot{}

// Judge remembers faults and makes verdicts. Its methods are safe for concurrent
// use, but only one goroutine may call Judge. Save takes as long as the disk does, and
// does not keep Judge waiting.
type Judge struct {
	now func() time.Time
	log *slog.Logger

	mu       sync.Mutex
	records  map[inventory.Key]*record
	policies map[string]BackendPolicy
	// handled is the Backend.Generation up to which statements were taken.
	handled map[string]uint64
	snap    *inventory.Snapshot
	view    *View
	touched bool   // something other than the snapshot or the time has changed
	pass    uint64 // counts calls that went over a snapshot
	// version grows with every change that belongs in the file; changed are the devices
	// with a change that is not in the journal yet.
	version uint64
	changed map[inventory.Key]bool
	logged  int
	absent  int // maxAbsent, but for tests
	// tight are the backends whose faults are over their budget.
	tight map[string]bool

	file *stateFile
}

// Open reads the state file. A file from another boot counts as empty: whatever
// is still wrong will be reported again. One that cannot be read or understood is
// renamed to <path>.corrupt-<n> and named in [Judge.Notes]. It fails only if a
// required option is missing.
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
		policies: map[string]BackendPolicy{}, handled: map[string]uint64{}, view: &View{}, changed: map[inventory.Key]bool{}, tight: map[string]bool{},
		file: &stateFile{path: o.Path, bootID: o.BootID, now: o.Now, log: o.Log, write: checkpoint.Write},
	}
	var stale bool
	if j.records, stale = j.file.open(); stale {
		j.version++
	}
	if j.file.older {
		j.save(true) // before there is a frame that it does not cover
	}
	j.prune()
	j.keepBudget()
	return j, nil
}

// Notes returns problems with the state file, and of backends whose faults are over their
// budget.
func (j *Judge) Notes() []string { return append(j.file.currentNotes(), j.budgetNotes()...) }

// SetPolicies replaces all policies. They count from the next Judge on.
func (j *Judge) SetPolicies(policies map[string]BackendPolicy) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.policies, j.touched = maps.Clone(policies), true
}

// ResetDone takes the result of a reset of a device; call Judge afterwards. If it
// recovered the device, faults that need no more than a reset are over as soon as
// the backend does not report them any more. If not, the message is added to
// them. A device without faults is left alone.
//
// A reset of one partition says nothing about a parent, unless that is not listed
// and the reset took all its partitions with it.
func (j *Judge) ResetDone(k inventory.Key, recovered bool, message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	message = shorten(message, maxNote)
	for _, key := range append(j.mutedParent(k), k) {
		r := j.records[key]
		if r != nil && r.resetDone(recovered, message, now) {
			j.touched = true
			j.change(key)
			j.log.Info("reset done", "backend", key.Backend, "device", key.ID, "recovered", recovered, "message", message)
		}
	}
}

// Judge makes the verdicts on a snapshot, from the same goroutine each time. It
// is idempotent: unless something happened, it returns the very same view. Call
// [Judge.Save] when the verdicts were told. A nil snapshot counts as an empty one.
//
// What changed is in the journal when Judge returns, so that nothing is told that this
// process, if it is killed in the next moment, would not know when it is back: a fault
// that containers are kept from, or that one is gone whose evidence will not come again.
// The state file may follow: the sooner kubelet knows, the fewer containers get the
// device, and a disk takes longer than everything else on the way. Where there is no
// journal, or the change is too large for it, a fault that is gone is written to the
// state file first, unless that has just been written and rests; one that came is told
// first.
func (j *Judge) Judge(snap *inventory.Snapshot) *View {
	if snap == nil {
		snap = nothing
	}
	view, went, noted := j.judge(snap)
	if !noted && went {
		j.save(false) // Save tells when it is tried again
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view = view
	return view
}

// judge makes the view. It reports whether a fault went, and whether what changed is in
// the journal.
func (j *Judge) judge(snap *inventory.Snapshot) (_ *View, went, noted bool) {
	j.file.order.Lock()
	defer j.file.order.Unlock()
	now := j.now()
	j.mu.Lock()
	due := !j.view.Next.IsZero() && !j.view.Next.After(now)
	if j.snap == snap && !j.touched && !due {
		defer j.mu.Unlock()
		return j.view, false, true
	}
	j.touched, j.logged = false, 0
	next, went := j.take(snap, now)
	j.snap = snap
	view := &View{Generation: snap.Generation, Next: next, faults: j.verdicts(snap, now)}
	frame := j.frame()
	if over := j.logged - maxLogged; over > 0 {
		j.log.Warn("more changes of health not logged", "devices", over)
	}
	j.mu.Unlock()
	return view, went, j.file.enter(frame, j.wholeFrame)
}

// Save writes faults that came or went to the state file. If that fails, the
// verdicts hold all the same, and a note says so. It returns when to call it again
// though nothing changes; zero means never. Any goroutine may call it.
func (j *Judge) Save() time.Time { return j.save(false) }

// Close writes what is not written yet.
func (j *Judge) Close() error {
	j.save(true)
	return errors.Join(j.file.lastError(), j.file.closeJournal())
}

// take goes over the snapshot: statements in, faults out. It returns when the
// next fault or holdover ends, and whether a fault went.
func (j *Judge) take(snap *inventory.Snapshot, now time.Time) (next time.Time, went bool) {
	j.pass++
	for _, b := range snap.Backends {
		j.superseded(b, now)
		if !b.LostAt.IsZero() {
			j.lostStatements(b, now)
			if end := b.LostAt.Add(j.policy(b.Name).Holdover); end.After(now) {
				next = earlier(next, end)
			}
			continue // nobody watches its devices: the delays stand still
		}
		j.hearAll(b, now)
		for k, h := range j.spokenFor(b) {
			j.say(k, h, now)
			j.present(k, now)
		}
		due, gone := j.expire(b, now)
		next, went = earlier(next, due), went || gone
	}
	for _, r := range j.records {
		if r.pass != j.pass {
			r.listed = false
		}
	}
	j.prune()
	j.keepBudget()
	return next, went
}

// say makes a record only for a device that needs one.
func (j *Judge) say(k inventory.Key, h inventory.Health, now time.Time) {
	r := j.records[k]
	if r == nil {
		if h.State != inventory.StateUnhealthy {
			return
		}
		r = j.record(k)
	}
	if !r.say(h, now) {
		return
	}
	j.change(k)
	if h.State == inventory.StateUnhealthy {
		j.logChange(j.log.Warn, "device has a fault", k, h.Code, h.Recovery)
	}
}

// change notes that there is something for the journal and the state file.
func (j *Judge) change(k inventory.Key) {
	j.version++
	j.changed[k] = true
}

func (j *Judge) record(k inventory.Key) *record {
	r := &record{seen: j.now(), tight: j.tight[k.Backend]}
	j.records[k] = r
	return r
}

// present marks a device as listed in this pass.
func (j *Judge) present(k inventory.Key, now time.Time) {
	r := j.records[k]
	if r == nil {
		return
	}
	if !r.listed {
		r.back(now)
	}
	r.listed, r.pass, r.seen = true, j.pass, now
}

// spokenFor are the parents with faults that are not listed, and what their
// partitions say for them.
func (j *Judge) spokenFor(b *inventory.Backend) map[inventory.Key]inventory.Health {
	var out map[inventory.Key]inventory.Health
	for _, d := range b.Devices {
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
	return out
}

// mutedParent is the parent that a reset of k speaks for, if there is one.
func (j *Judge) mutedParent(k inventory.Key) []inventory.Key {
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

// expire ends the faults of listed devices whose delay has passed, and says when
// the next one is due, and whether one went.
func (j *Judge) expire(b *inventory.Backend, now time.Time) (next time.Time, went bool) {
	delay := j.policy(b.Name).Delay
	for k, r := range j.records {
		if k.Backend != b.Name || r.pass != j.pass {
			continue
		}
		gone, due := r.expire(delay, now)
		next = earlier(next, due)
		for _, f := range gone {
			j.change(k)
			j.logChange(j.log.Info, "fault of device is over", k, f.code, f.recovery)
		}
		went = went || len(gone) > 0
	}
	return next, went
}

// prune forgets records that say nothing, and of each backend the absent devices
// beyond the bound, those first that were seen longest ago.
func (j *Judge) prune() {
	absent := map[string][]inventory.Key{}
	for k, r := range j.records {
		switch {
		case len(r.faults) == 0 && (!r.listed || j.now().Sub(r.sound) >= flapWindow):
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
			j.change(k)
		}
		j.log.Warn("faults of absent devices forgotten: too many", "backend", backend, "devices", over)
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
