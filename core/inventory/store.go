package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/wake"
)

// Store computes one snapshot of the reports of all backends. It is safe for
// concurrent use; a backend that reports often delays no other.
//
// The calls for one backend, in their usual order:
//
//   - SetPolicies: its policy.
//   - Describe: its description; required before the first Report.
//   - Report: its whole inventory. It also ends a loss.
//   - Lost: it stopped reporting; its devices stay, marked with the time, if it is still
//     configured.
//   - Restarted: a new process; generations count from 1 again.
//   - Remove: it is not configured any more; its devices are removed.
//
// A report may say that the backend could not look at devices. Those that it does not list stay as they were,
// with Health.Unread, until a report lists them or does not have them as unread. Restore has those of an earlier
// run of the agent; Remove forgets them.
type Store struct {
	now     func() time.Time
	changed chan struct{}
	current atomic.Pointer[Snapshot]
	// statements is maxStatement, but for tests.
	statements int

	mu         sync.Mutex // guards what follows; taken after a source's
	sources    map[string]*source
	policies   map[string]Policy
	generation uint64
	published  map[string]*Backend
	// earlier is what an earlier run of the agent knew, until the backend's first report.
	earlier map[string]*Backend
	// accepted counts the accepted reports by backend. It keeps removed backends, so that
	// Backend.Generation always grows.
	accepted map[string]uint64
}

// source is the store's state of one backend.
type source struct {
	mu      sync.Mutex
	name    string
	removed bool
	// lost is set from Lost until the next Describe.
	lost   bool
	desc   Description
	policy Policy
	// last is the generation of the process's latest inventory.
	last uint64
	// wire is the latest accepted report and wireDesc the description that it was checked
	// with. They are stored so that a changed policy applies at once, not at the next report.
	wire     *Report
	wireDesc Description
	// stored has the devices of wire that were checked with desc and policy.
	stored  map[string]*checkedDevice
	backend *Backend // as published, or nil
}

// NewStore returns an empty store. A nil now means time.Now.
func NewStore(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	s := &Store{
		now: now, statements: maxStatement, changed: make(chan struct{}, 1),
		sources: map[string]*source{}, published: map[string]*Backend{}, accepted: map[string]uint64{}, earlier: map[string]*Backend{},
	}
	s.current.Store(&Snapshot{})
	return s
}

// Snapshot returns the newest snapshot, never nil. It takes no lock.
func (s *Store) Snapshot() *Snapshot { return s.current.Load() }

// Changed receives after each change of the snapshot. Changes coalesce: the receiver takes the
// newest Snapshot. There is one channel, for one receiver.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// SetPolicies sets what the configuration lets the container edits of each backend contain.
// It applies at once, also to devices that are listed. A backend without a policy is no
// longer configured: it is removed when it is lost, at once if it is lost already.
func (s *Store) SetPolicies(policies map[string]Policy) {
	s.mu.Lock()
	s.policies = map[string]Policy{}
	for backend, p := range policies {
		s.policies[backend] = p.clone()
	}
	maps.DeleteFunc(s.earlier, func(backend string, _ *Backend) bool { _, ok := policies[backend]; return !ok })
	sources := maps.Clone(s.sources)
	s.mu.Unlock()
	for backend, src := range sources {
		src.mu.Lock()
		_, configured := policies[backend]
		removed, lost := src.removed, src.lost
		if configured && !removed {
			s.describe(src, src.desc)
		}
		src.mu.Unlock()
		if !configured && lost {
			s.Remove(backend)
		}
	}
}

// Describe sets a backend's description; it may be called again at any time. A further scope of
// edits applies at once, also to listed devices. Otherwise a changed description applies to the next
// report, so that the devices of the earlier version of a backend stay listed. Without a policy no device of it may have container edits.
func (s *Store) Describe(backend string, d Description) {
	d.Classes = slices.Clone(d.Classes)
	for {
		src := s.source(backend, true)
		src.mu.Lock()
		if src.removed { // by a concurrent Remove
			src.mu.Unlock()
			continue
		}
		defer src.mu.Unlock()
		src.lost = false
		s.describe(src, d)
		return
	}
}

// describe applies a description and the policy in force. The caller holds src.mu.
func (s *Store) describe(src *source, d Description) {
	s.mu.Lock()
	p := s.policies[src.name]
	s.mu.Unlock()
	sameDesc, samePolicy := equalDescription(src.desc, d), src.policy.equal(p) && equalScope(src.desc, d)
	src.desc, src.policy = d, p
	if sameDesc && samePolicy {
		return
	}
	src.stored = nil
	if src.backend == nil {
		return
	}
	next := *src.backend
	next.Description = d
	if !samePolicy {
		// What the earlier process may write and give counts for its devices until the next report.
		src.wireDesc.Edits, src.wireDesc.Writes = src.wireDesc.Edits.join(d.Edits), union(src.wireDesc.Writes, d.Writes)
		s.checkAgain(src, &next)
	}
	s.publish(src, &next, true)
}

// Restarted is for a new process of the backend, which counts its generations from 1 again.
// Its devices stay listed.
func (s *Store) Restarted(backend string) {
	if src := s.source(backend, false); src != nil {
		src.mu.Lock()
		defer src.mu.Unlock()
		src.last = 0
	}
}

// Report takes a backend's whole inventory. Devices that break the contract or the policy
// are left out, with a [Problem]. A device that equals the listed one is the same *Device.
//
// With an error the report is refused as a whole and the earlier one stays: the backend is
// not described, the generation does not grow, there are more than [MaxDevices] devices, or
// every device breaks the contract. Devices that only the policy refuses are no such error.
//
// The store keeps wire; the caller must not change it afterwards.
func (s *Store) Report(backend string, wire *Report) error {
	src := s.source(backend, false)
	if src == nil {
		return fmt.Errorf("inventory of backend %q refused: the backend was not described", backend)
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.removed {
		return fmt.Errorf("inventory of backend %q refused: the backend was removed", backend)
	}
	r, err := s.check(src, wire)
	if err != nil {
		return fmt.Errorf("inventory of backend %q refused: %w", backend, err)
	}
	src.lost = false
	src.last, src.wire, src.wireDesc, src.stored = wire.GetGeneration(), wire, src.desc, r.stored

	next := &Backend{
		Name: backend, Description: src.desc, ReceivedAt: s.now(), Generation: s.accept(backend),
	}
	next.take(r)
	changed := true
	if before := src.backend; before != nil {
		next.Superseded = supersede(before, next, s.statements)
		changed = !before.LostAt.IsZero() || !equalDescription(before.Description, next.Description) || !before.sameReport(next)
	}
	s.publish(src, next, changed)
	return nil
}

// check checks a report, or refuses it.
func (s *Store) check(src *source, wire *Report) (checkedReport, error) {
	if wire == nil {
		return checkedReport{}, errors.New("it is missing; send an inventory, even one without devices")
	}
	n := len(wire.Devices)
	switch {
	case wire.GetGeneration() <= src.last:
		return checkedReport{}, fmt.Errorf("its generation %d does not follow %d; count from 1, upwards", wire.GetGeneration(), src.last)
	case n > MaxDevices:
		return checkedReport{}, fmt.Errorf("it lists %d devices; at most %d are allowed", n, MaxDevices)
	}
	r := checkReport(newParser(src.desc, src.policy), src.name, wire, s.known(src), src.stored, s.now())
	if n > 0 && len(r.devices) == 0 && r.refusedByPolicy == 0 {
		return checkedReport{}, fmt.Errorf("none of its %d devices is valid; the first, %s: %s",
			n, r.problems[0].Device, r.problems[0].Message)
	}
	return r, nil
}

// Lost marks the devices of a backend that stopped reporting. They stay in the snapshot;
// package health judges how long. Only the first call after a report counts. The devices of
// a backend without a policy are removed. A backend that has not reported in this run of the
// agent gets the devices of the earlier run.
func (s *Store) Lost(backend string) {
	if !s.lost(s.source(backend, true)) {
		s.Remove(backend)
	}
}

// lost marks the devices as lost, or returns false if the backend is no longer configured.
func (s *Store) lost(src *source) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	s.mu.Lock()
	_, configured := s.policies[src.name]
	earlier := s.earlier[src.name]
	s.mu.Unlock()
	if src.removed || !configured {
		return src.removed
	}
	src.lost = true
	switch {
	case src.backend == nil && earlier != nil:
		s.holdOver(src, earlier)
	case src.backend != nil && src.backend.LostAt.IsZero():
		next := *src.backend
		next.LostAt = s.now()
		s.publish(src, &next, true)
	}
	return true
}

// Remove removes the backend and its devices. It waits for a Report in progress.
func (s *Store) Remove(backend string) {
	src := s.source(backend, false)
	if src == nil {
		return
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.removed {
		return
	}
	src.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sources, backend)
	delete(s.earlier, backend)
	if src.backend != nil {
		delete(s.published, backend)
		s.renew(true)
	}
}

func (s *Store) source(backend string, create bool) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.sources[backend]
	if src == nil && create {
		src = &source{name: backend}
		s.sources[backend] = src
	}
	return src
}

func (s *Store) accept(backend string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[backend]++
	return s.accepted[backend]
}

// publish is called with the source's lock held.
func (s *Store) publish(src *source, b *Backend, changed bool) {
	src.backend = b
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published[b.Name] = b
	delete(s.earlier, b.Name)
	s.renew(changed)
}

// renew replaces the snapshot. Without a change the generation stays and Changed does not
// receive; only the times in the snapshot are newer.
func (s *Store) renew(changed bool) {
	if changed {
		s.generation++
	}
	snap := &Snapshot{Generation: s.generation, Backends: make([]*Backend, 0, len(s.published))}
	for _, name := range slices.Sorted(maps.Keys(s.published)) {
		snap.Backends = append(snap.Backends, s.published[name])
	}
	s.current.Store(snap)
	if changed {
		wake.Send(s.changed) // if one is pending, its receiver takes this snapshot
	}
}

// supersede returns the reports of health in before that next replaced, after the earlier such
// statements that are younger than statementAge; at most limit.
func supersede(before, next *Backend, limit int) []Statement {
	earlier := before.Superseded
	for len(earlier) > 0 && next.ReceivedAt.Sub(earlier[0].At) > statementAge {
		earlier = earlier[1:]
	}
	var added []Statement
	now := sync.OnceValue(func() map[string]*Device { return byID(next.Devices) })
	for i, d := range before.Devices {
		if i < len(next.Devices) && next.Devices[i] == d {
			continue
		}
		other := now()[d.ID]
		if d == other || d.Health.State == StateUnknown || other != nil && sameStatement(d.Health, other.Health) {
			continue
		}
		added = append(added, Statement{ID: d.ID, Health: d.Health, Generation: next.Generation, At: next.ReceivedAt})
	}
	if len(added) == 0 {
		return earlier
	}
	if over := len(earlier) + len(added) - limit; over > 0 {
		earlier = earlier[min(over, len(earlier)):]
	}
	return slices.Concat(earlier, added)
}

// sameStatement compares all but the messages.
func sameStatement(a, b Health) bool {
	a.Message, b.Message = "", ""
	return a == b
}

func byID(devices []*Device) map[string]*Device {
	m := make(map[string]*Device, len(devices))
	for _, d := range devices {
		m[d.ID] = d
	}
	return m
}

func equalDescription(a, b Description) bool {
	return a.Name == b.Name && a.Vendor == b.Vendor && a.Version == b.Version && slices.Equal(a.Classes, b.Classes) &&
		a.Prepare == b.Prepare && a.Release == b.Release && a.Reset == b.Reset && a.Sample == b.Sample &&
		slices.Equal(a.Parameters, b.Parameters) && slices.Equal(a.AttributePriority, b.AttributePriority) &&
		slices.Equal(a.Attributes, b.Attributes) && equalScope(a, b)
}

func equalScope(a, b Description) bool {
	return a.Edits.Equal(b.Edits) && slices.Equal(a.Writes, b.Writes)
}
