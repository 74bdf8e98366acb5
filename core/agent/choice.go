package agent

import (
	"errors"
	"path/filepath"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/profile"
)

// fixed reports whether the node's labels don't count: a profile is named, or
// there is nobody to ask for them.
func (a *Agent) fixed() bool { return a.opts.Profile != "" || a.opts.Cluster == nil }

// openCluster makes what needs the API server, if there is one. It does not
// contact it.
func (a *Agent) openCluster() {
	if a.opts.Cluster == nil {
		return
	}
	a.events = events.New(events.Options{
		Sink: a.opts.Cluster, Node: a.opts.NodeName, Log: a.log, Timing: a.opts.Timing.Events,
	})
	if a.fixed() {
		return
	}
	a.selection = profile.Open(profile.Options{
		Nodes: a.opts.Cluster, Node: a.opts.NodeName, Path: filepath.Join(a.opts.StateDir, "selection"),
		Log: a.log, Timing: a.opts.Timing.Selection,
	})
}

// pick chooses by the newest configuration and the newest labels.
func (a *Agent) pick() (*plan, error) {
	var choice profile.Choice
	var err error
	if a.fixed() {
		choice, err = profile.Named(a.loaded, a.opts.Profile)
	} else {
		choice, err = profile.Choose(a.loaded, a.selection.Labels())
	}
	if err != nil {
		return nil, err
	}
	return newPlan(choice, a.source)
}

// firstPlan is what is in force from the start. Where labels count and no profile
// can be chosen, it is the one that ran last, or nothing until there is a choice.
func (a *Agent) firstPlan() (*plan, error) {
	first, err := a.pick()
	if err == nil || a.fixed() {
		return first, err
	}
	a.refuseChoice(err)
	if last := a.selection.Last(); last != "" {
		if named, lastErr := a.loaded.Profile(last); lastErr == nil {
			return newPlan(profile.Choice{Profile: named, Reason: "it ran before the agent was restarted"}, a.source)
		}
	}
	return newPlan(profile.Choice{Profile: &config.Profile{}, Reason: "none is chosen yet"}, nil)
}

// choose chooses again, after the configuration or the labels changed. Without a
// choice, what runs stays.
func (a *Agent) choose() {
	next, err := a.pick()
	if err != nil {
		a.refuseChoice(err)
		return
	}
	again := a.unchosen.Swap(nil) != nil
	a.switching.Lock()
	defer a.switching.Unlock()
	if a.plans.explain(next) {
		if again {
			a.tellApplied(next)
		}
		return
	}
	a.plans.propose(next, a.opts.Timing.SwitchLimit)
	a.supervisor.Apply(a.plans.specs())
	a.poke()
}

// unchosen says why no profile is chosen. It is no problem if no profile is for this node
// and none ran before.
type unchosen struct {
	text    string
	nothing bool
}

// refuseChoice records why no profile is chosen.
func (a *Agent) refuseChoice(err error) {
	why := unchosen{text: err.Error(), nothing: errors.Is(err, profile.ErrNone)}
	if before := a.unchosen.Swap(&why); before != nil && *before == why {
		return
	}
	switch {
	case errors.Is(err, profile.ErrUnknown):
		a.log.Info("no profile is chosen before the node's labels are known", "node", a.opts.NodeName)
		return
	case why.nothing && a.plans.idle():
		a.log.Info("no profile is for this node: nothing to do", "node", a.opts.NodeName, "reason", why.text)
		return
	}
	a.log.Error("no profile can be chosen, what runs stays", "node", a.opts.NodeName, "error", err)
	a.events.Record(events.ProfileRefused, "no profile can be chosen, what runs stays: %v", err)
}

// choiceNotes returns the problems of the choice; unchosen says why no profile can be
// chosen, "" if that is no problem.
func (a *Agent) choiceNotes(current *plan, unchosen string) []string {
	var notes []string
	if unchosen != "" {
		stays := "profile " + current.profile.Name + " stays in force"
		if current.idle() {
			stays = "nothing runs until one can"
		}
		notes = append(notes, "no profile can be chosen, "+stays+": "+unchosen)
	}
	notes = append(notes, a.selection.Notes()...)
	return append(notes, a.events.Notes()...)
}

// applied says that a plan is in force, in an Event only if that is news.
func (a *Agent) applied(current *plan, news bool) {
	name := current.profile.Name
	a.log.Info("configuration applied", "path", a.opts.ConfigPath, "profile", name, "reason", current.reason)
	a.selection.Remember(name)
	a.keeper.Keep(current.source)
	if news {
		a.tellApplied(current)
	}
}

func (a *Agent) tellApplied(current *plan) {
	a.events.Record(events.ProfileApplied, "profile %s is applied: %s", current.profile.Name, current.reason)
}

// tellStuck says once of a switch that it can't go on, so that the plan that is in
// force stays.
func (a *Agent) tellStuck(current *plan) {
	why := a.plans.stuckNow()
	if why == "" {
		return
	}
	a.log.Error("the switch to another configuration cannot go on, what runs stays", "profile", current.profile.Name, "reason", why)
	a.events.Record(events.ProfileSwitchBlocked, "profile %s stays in force: %s", current.profile.Name, why)
}
