package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/events"
)

// Run follows the configuration file and the node's labels until ctx ends or files is
// closed, and logs which profile applies. What Watcher and Memory do needs their own Run.
func (s *Switch) Run(ctx context.Context, files <-chan config.Event) error {
	s.mu.Lock()
	if !s.current.Idle() {
		// An Event only if it is another profile than before the restart: a cluster's
		// agents may all be restarted at once.
		s.announce(s.current, s.opts.Memory.Profile() != s.current.Profile.Name)
	}
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.opts.Labels.Changed():
			s.mu.Lock()
			s.chooseAgain()
			s.mu.Unlock()
		case <-s.opts.Manifests:
			s.retry()
		case file, ok := <-files:
			if !ok {
				return nil
			}
			s.load(file)
		}
	}
}

// load applies a new configuration file, or refuses it.
func (s *Switch) load(file config.Event) {
	err := usable(file, s.opts.Path, s.opts.Name, s.opts.Labels != nil, s.opts.Check)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.loaded.File = file
		s.refuseFile(err)
		return
	}
	s.loaded = Loaded{File: file, config: file.Config, source: file.Data}
	s.opts.Memory.refused(false)
	s.chooseAgain()
}

// retry applies a refused file that manifests accept now.
func (s *Switch) retry() {
	s.mu.Lock()
	file, refused := s.loaded.File, s.loaded.refused
	s.mu.Unlock()
	if refused == nil {
		return
	}
	if err := usable(file, s.opts.Path, s.opts.Name, s.opts.Labels != nil, s.opts.Check); err == nil || err.Error() != refused.Error() {
		s.load(file)
	}
}

// chooseAgain chooses after the configuration or the labels changed. Without a choice, what
// runs stays. The caller holds s.mu.
func (s *Switch) chooseAgain() {
	next, err := s.choose()
	if err != nil {
		s.refuseChoice(err)
		return
	}
	again := s.unchosen != nil
	s.unchosen = nil
	if s.explain(next) {
		if again {
			s.recordApplied(next)
		}
		return
	}
	s.propose(next, time.Now())
	s.opts.Wake()
}

// explain updates the reason of the newest plan (queued, next or current). It returns false if
// that plan is of another profile than next. The caller holds s.mu.
func (s *Switch) explain(next *Plan) bool {
	target := &s.current
	switch {
	case s.queued != nil:
		target = &s.queued
	case s.next != nil:
		target = &s.next
	}
	if (*target).Profile != next.Profile {
		return false
	}
	explained := **target
	explained.reason = next.reason
	*target = &explained
	return true
}

// refuseFile records why the newest configuration file is not used. A switch in progress
// continues.
func (s *Switch) refuseFile(err error) {
	s.loaded.refused, s.refusedSince = err, s.opts.Memory.refused(true)
	s.log.Error("configuration refused, the last good one stays in force", "path", s.opts.Path, "error", err)
	s.opts.Events.Record(events.ConfigurationRefused, "the configuration is refused, the last good one stays in force: %v", err)
}

// refuseChoice records why no profile is chosen. It is no problem if no profile is for this
// node and none ran before.
func (s *Switch) refuseChoice(err error) {
	before := s.unchosen
	s.unchosen = err
	switch {
	case before != nil && before.Error() == err.Error():
	case errors.Is(err, ErrUnknown):
		s.log.Info("no profile is chosen before the node's labels are known", "node", s.opts.Node)
	case errors.Is(err, ErrNone) && s.next == nil && (s.current == nil || s.current.Idle()):
		s.log.Info("no profile is for this node: nothing to do", "node", s.opts.Node, "reason", err)
	default:
		s.log.Error("no profile can be chosen, what runs stays", "node", s.opts.Node, "error", err)
		s.opts.Events.Record(events.ProfileRefused, "no profile can be chosen, what runs stays: %v", err)
	}
}

// announce logs that a plan is in force and stores it for a restart; event says whether to
// record an Event.
func (s *Switch) announce(p *Plan, event bool) {
	s.log.Info("configuration applied", "path", s.opts.Path, "profile", p.Profile.Name, "reason", p.reason)
	s.opts.Memory.SetInForce(p.Profile.Name, p.source)
	if event {
		s.recordApplied(p)
	}
}

func (s *Switch) recordApplied(p *Plan) {
	s.opts.Events.Record(events.ProfileApplied, "profile %s is applied: %s", p.Profile.Name, p.reason)
}

// reportStuck reports once per switch that it cannot go on, so that what runs stays.
func (s *Switch) reportStuck() {
	if s.reportedStuck {
		return
	}
	s.reportedStuck = true
	name := s.current.Profile.Name
	s.log.Error("the switch to another configuration cannot go on, what runs stays", "profile", name, "reason", s.waits)
	s.opts.Events.Record(events.ProfileSwitchBlocked, "profile %s stays in force: %s", name, s.waits)
}

// Status is the state of a Switch, for the operator.
type Status struct {
	// Path is the configuration file.
	Path string `json:"path"`
	// Profile is the name of the profile in force; "" while none is.
	Profile string `json:"profile"`
	// Reason is why that profile was chosen, as a clause.
	Reason string `json:"reason,omitempty"`
	// AppliedAt is when it came in force.
	AppliedAt time.Time `json:"appliedAt"`
	// Refused is why the newest configuration file is not used; "" if it is in force.
	Refused string `json:"refused,omitempty"`
	// RefusedSince is since when a file is refused, over restarts of the agent.
	RefusedSince time.Time `json:"refusedSince,omitzero"`
	// Unchosen is why no profile can be chosen; "" if one can, or none is for this node. What
	// ran before stays in force.
	Unchosen string `json:"unchosen,omitempty"`
	// Waits is what a switch to another profile waits for; "" if there is none.
	Waits string `json:"waits,omitempty"`
	// InForce is the plan in force.
	InForce *Plan `json:"-"`
	// Missing is what is missing before a profile is in force; none if one is, or no
	// profile is for this node.
	Missing []string `json:"-"`
	// Problems has all of these that are problems for the operator.
	Problems []string `json:"-"`
}

// Status returns the newest status.
func (s *Switch) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{
		Path: s.opts.Path, InForce: s.current, Profile: s.current.Profile.Name, Reason: s.current.reason, AppliedAt: s.applied, Waits: s.waits,
	}
	idle := s.current.Idle()
	switch {
	case s.unchosen != nil && errors.Is(s.unchosen, ErrNone) && idle:
		status.Reason = s.unchosen.Error()
	case s.unchosen != nil:
		status.Unchosen = s.unchosen.Error()
		stays := "profile " + s.current.Profile.Name + " stays in force"
		if idle {
			stays = "nothing runs until one can"
			status.Missing = []string{"no profile can be chosen: " + status.Unchosen}
		}
		status.Problems = append(status.Problems, "no profile can be chosen, "+stays+": "+status.Unchosen)
	case idle:
		status.Missing = []string{"no profile is in force yet"}
	}
	if s.loaded.refused != nil {
		status.Refused, status.RefusedSince = s.loaded.refused.Error(), s.refusedSince
		status.Problems = append(status.Problems, fmt.Sprintf("the configuration file is refused since %s, the last good one stays in force: %s",
			status.RefusedSince.Format(time.RFC3339), status.Refused))
	}
	if s.waits != "" {
		status.Problems = append(status.Problems, s.waits)
	}
	if problem := s.opts.Labels.Problem(); problem != "" {
		status.Problems = append(status.Problems, problem)
	}
	status.Problems = append(status.Problems, s.opts.Memory.problems()...)
	return status
}
