package profile

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// SwitchOptions are what a Switch needs.
type SwitchOptions struct {
	// Path is the configuration file.
	Path string
	// Name is the profile named on the command line; "" if none is.
	Name string
	// Node is the name of the agent's own Node, for the log.
	Node string
	// Labels has the node's labels; nil if they don't count: a profile is named, or there
	// is no API server.
	Labels *Watcher
	// Memory stores what is in force for a restart.
	Memory *Memory
	// Check returns why a new configuration is refused as a whole: settings that a manifest refuses. May be nil.
	Check func(config.Event) error
	// Manifests is ready after a manifest may have changed: then a file that Check refused is checked again. May be nil.
	Manifests <-chan struct{}
	// Limit is how long the backends of a new configuration may take to start before it is
	// applied without those that are late. Default 30s.
	Limit time.Duration
	// Statuses returns the backends' newest statuses.
	Statuses func() []supervisor.Status
	// Apply makes these the backends that run, with these policies for the container edits
	// of their devices. It must not block, and must not call the Switch.
	Apply func([]supervisor.Spec, map[string]inventory.Policy)
	// Wake is called when Advance has something to do. It must not block.
	Wake func()
	// Host gives access to the host's files.
	Host inventory.Host
	// Events takes Events about the choice; nil for nowhere.
	Events *events.Recorder
	Log    *slog.Logger
}

// Switch has the plan in force, and changes it without a gap:
//
//	           new configuration           new backends have reported
//	in force ─────────────────────► starting ─────────────────────────► reconfiguring
//	   ▲                     the new backends run beside the    │  backends of both plans get
//	   │                     old ones; the old resources are    │  their new settings; the old
//	   │                     advertised                         │  resources are advertised
//	   └────────────────────────────────────────────────────────┘
//	      every backend has reported or refused: the backends of the old plan
//	      alone are stopped, the new resources are advertised
//
// A failing new backend blocks the switch only if an old backend would be stopped. Resources
// and the inventories that they are made of change in one round, so that a selector and an
// attribute may change together. A
// third configuration replaces the second while that is starting; while backends are
// reconfigured it is queued, because they already use the second one's settings.
//
// Its methods are safe for concurrent use.
type Switch struct {
	opts SwitchOptions
	log  *slog.Logger

	// mu is held while Apply is called, so that specs are applied in order, and no step is
	// decided by the status of backends that do not know of the step before.
	mu      sync.Mutex
	loaded  Loaded
	current *Plan
	next    *Plan
	// queued replaces next as soon as that is in force.
	queued *Plan
	stage  stage
	// deadline ends the stage.
	deadline time.Time
	// waits is what the switch waits for, "" for nothing.
	waits string
	// reportedStuck is whether it was reported that the switch cannot go on.
	reportedStuck bool
	// unchosen is why no profile is chosen; nil if one is.
	unchosen error
	// refusedSince is since when loaded.refused, or what was refused before it, stands.
	refusedSince time.Time
	applied      time.Time
}

// stage is a stage of a switch.
type stage int

const (
	inForce stage = iota
	starting
	reconfiguring
)

// reconfigureLimit is how long reconfiguring may take: longer than a backend may take for
// Configure and for the inventory that follows.
const reconfigureLimit = 15 * time.Second

// NewSwitch chooses the first plan, which is in force at once. That is the one that ran last if
// no profile can be chosen where labels count, or if backends of it would be stopped for others that
// have yet to start: then the switch begins. Without one, it is idle until there is a choice.
func NewSwitch(opts SwitchOptions, loaded Loaded) (*Switch, error) {
	opts.Limit = cmp.Or(opts.Limit, 30*time.Second)
	s := &Switch{opts: opts, log: opts.Log, loaded: loaded, applied: time.Now()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.first(); err != nil {
		return nil, err
	}
	if loaded.refused != nil {
		s.refuseFile(loaded.refused)
	} else {
		s.opts.Memory.refused(false)
	}
	return s, nil
}

// first puts the first plan in force: the one that is chosen, unless that would stop backends of the one in force before for
// new ones, as only Advance may; or without a choice the one before, or one that is idle.
func (s *Switch) first() error {
	chosen, err := s.choose()
	if err == nil && s.opts.Memory.isInForce(chosen) {
		s.current = chosen
		return nil
	}
	before := s.before()
	switch {
	case err != nil && s.opts.Labels == nil:
		return err
	case err == nil && (before == nil || !before.lacks(chosen) || !chosen.lacks(before)):
		s.current = chosen
	case err == nil:
		s.current = before
		s.begin(chosen, time.Now())
	case before != nil:
		s.current = before
		s.refuseChoice(err)
	default:
		s.refuseChoice(err)
		s.current, err = newPlan(Choice{Profile: &config.Profile{}, Reason: "none is chosen yet"}, s.opts.Path, Loaded{})
		return err
	}
	return nil
}

// before returns the plan that was in force before the agent was restarted; nil if that is not known.
func (s *Switch) before() *Plan {
	loaded, err := stored(s.opts.Path, s.opts.Memory)
	if err != nil {
		return nil
	}
	profile, err := loaded.config.Profile(s.opts.Memory.Profile())
	if err != nil {
		return nil
	}
	plan, err := newPlan(Choice{Profile: profile, Reason: "it was in force before the agent was restarted"}, s.opts.Path, loaded)
	if err != nil {
		return nil
	}
	return plan
}

// choose returns the plan by the newest configuration and the newest labels.
func (s *Switch) choose() (*Plan, error) {
	var choice Choice
	var err error
	if s.opts.Labels == nil {
		choice, err = Named(s.loaded.config, s.opts.Name)
	} else {
		choice, err = Choose(s.loaded.config, s.opts.Labels.Labels())
	}
	if err != nil {
		return nil, err
	}
	return newPlan(choice, s.opts.Path, s.loaded)
}

// InForce returns the plan in force.
func (s *Switch) InForce() *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Reconfigured returns the backends of the plan in force whose inventories may already be those of the
// next plan: while backends are reconfigured, those of both plans with other settings or rights.
func (s *Switch) Reconfigured() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage != reconfiguring {
		return nil
	}
	names := map[string]bool{}
	for i := range s.next.Profile.Backends {
		b := &s.next.Profile.Backends[i]
		if before := s.current.Profile.Backend(b.Name); before != nil && (!specOf(before).Equal(specOf(b)) || !reflect.DeepEqual(before.Allow, b.Allow)) {
			names[b.Name] = true
		}
	}
	return names
}

// Apply has the backends started that must run now.
func (s *Switch) Apply() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply()
}

// Policies returns the policies of the backends that must run now.
func (s *Switch) Policies() map[string]inventory.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, policies := s.backends()
	return policies
}

// apply applies the backends that must run now. The caller holds s.mu.
func (s *Switch) apply() { s.opts.Apply(s.backends()) }

// backends returns the backends that must run now. While switching, that is those of both
// plans; those that both have get their new settings when the backends are reconfigured.
// The caller holds s.mu.
func (s *Switch) backends() ([]supervisor.Spec, map[string]inventory.Policy) {
	plans := []*Plan{s.current, s.next}
	if s.stage == reconfiguring {
		plans = []*Plan{s.next, s.current}
	}
	var specs []supervisor.Spec
	policies := map[string]inventory.Policy{}
	for _, plan := range plans {
		if plan == nil {
			continue
		}
		for i := range plan.Profile.Backends {
			b := &plan.Profile.Backends[i]
			if _, ok := policies[b.Name]; !ok {
				policies[b.Name] = EditPolicy(b, s.opts.Host)
				spec := specOf(b)
				spec.Fallback = s.opts.Memory.accepted(b.Name, b.Command)
				specs = append(specs, spec)
			}
		}
	}
	return specs, policies
}

// Accepted stores what backends have accepted, so that a later start can go back to that.
func (s *Switch) Accepted(statuses []supervisor.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Idle() {
		return // whose settings will count is not known
	}
	names := map[string]bool{}
	for _, plan := range []*Plan{s.current, s.next, s.queued} {
		for i := 0; plan != nil && i < len(plan.Profile.Backends); i++ {
			names[plan.Profile.Backends[i].Name] = true
		}
	}
	s.opts.Memory.setAccepted(names, statuses)
}

// propose makes a plan the one to switch to, at once or, if backends are being
// reconfigured, when that is done. The caller holds s.mu.
func (s *Switch) propose(next *Plan, now time.Time) {
	if s.stage == reconfiguring {
		s.queued = next
		return
	}
	s.begin(next, now)
	s.apply()
}

// begin begins to start the backends of next. The caller holds s.mu.
func (s *Switch) begin(next *Plan, now time.Time) {
	s.next, s.queued, s.stage, s.waits, s.reportedStuck = next, nil, starting, "", false
	s.deadline = now.Add(s.opts.Limit)
}

// Advance takes a switch to another plan as far as it goes now. It returns whether a plan
// came in force, and when to call it again although nothing changes; zero for never. A plan
// that comes in force is published before the next switch can reach the stage reconfiguring, in
// which what its backends listed in the round before counts.
func (s *Switch) Advance(now time.Time) (changed bool, retry time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses := map[string]supervisor.Status{}
	if s.stage != inForce {
		for _, status := range s.opts.Statuses() {
			statuses[status.Name] = status
		}
	}
	if s.stage == starting {
		waits, stuck := s.startBlocked(statuses, now)
		if s.waits = waits; waits == "" {
			s.stage, s.deadline = reconfiguring, now.Add(reconfigureLimit)
			s.apply()
			for _, status := range s.opts.Statuses() {
				statuses[status.Name] = status
			}
		} else if stuck {
			s.reportStuck()
		}
	}
	if s.stage == reconfiguring {
		if s.waits = s.reconfigureBlocked(statuses, now); s.waits == "" {
			s.putInForce(now)
			return true, time.Time{}
		}
	}
	if s.stage == inForce || !now.Before(s.deadline) {
		return false, time.Time{} // only a backend can end the wait
	}
	return false, s.deadline
}

// putInForce ends a switch. The caller holds s.mu.
func (s *Switch) putInForce(now time.Time) {
	s.next.Mapper.Inherit(s.current.Mapper)
	s.current, s.next, s.stage, s.applied = s.next, nil, inForce, now
	if s.queued != nil {
		s.begin(s.queued, now)
	}
	s.apply()
	s.announce(s.current, true)
	s.opts.Wake()
}

// startBlocked returns what the start waits for; "" if for nothing. It is stuck if that
// backend does not work, or is late.
func (s *Switch) startBlocked(statuses map[string]supervisor.Status, now time.Time) (waits string, stuck bool) {
	if s.current.Idle() {
		return "", false // nothing can be lost
	}
	stops := s.stopped(statuses)
	for _, b := range s.next.Profile.Backends {
		status := statuses[b.Name]
		switch {
		case s.current.Profile.Backend(b.Name) != nil, status.Applied:
		case !status.Failed && now.Before(s.deadline):
			return fmt.Sprintf("the switch to the new configuration waits for the first inventory of backend %s", b.Name), false
		case stops != "":
			return fmt.Sprintf("the switch to the new configuration would stop backend %s, but backend %s does not run: %s",
				stops, b.Name, cmp.Or(status.Paused, status.LastError, "it has not started yet")), true
		}
	}
	return "", false
}

// stopped is the first backend that the switch would stop, "" if none. One whose program cannot be used, as after an upgrade
// that renames it, has nothing to lose.
func (s *Switch) stopped(statuses map[string]supervisor.Status) string {
	for _, b := range s.current.Profile.Backends {
		if s.next.Profile.Backend(b.Name) == nil && statuses[b.Name].State != supervisor.Unavailable {
			return b.Name
		}
	}
	return ""
}

// reconfigureBlocked returns what reconfiguring waits for; "" if for nothing.
func (s *Switch) reconfigureBlocked(statuses map[string]supervisor.Status, now time.Time) string {
	for i := range s.next.Profile.Backends {
		b := &s.next.Profile.Backends[i]
		before, status := s.current.Profile.Backend(b.Name), statuses[b.Name]
		if before == nil || specOf(before).Equal(specOf(b)) {
			continue // it has reported already, or goes on as before
		}
		if !status.Applied && !status.Failed && now.Before(s.deadline) {
			return fmt.Sprintf("the switch to the new configuration waits for backend %s to apply its new settings", b.Name)
		}
	}
	return ""
}
