package agent

import (
	"fmt"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// notReady returns what is missing before the node can use what the profile promises:
// backends that have not reported, and resources that kubelet does not have from this
// agent. A broken device does not count: the agent has done its part.
func (a *Agent) notReady(v *round.Round) []string {
	current := a.plans.InForce()
	if current.Idle() {
		return a.plans.Status().Missing
	}
	if v == nil {
		return []string{"no profile is in force yet"}
	}
	missing := []string{}
	reported := map[string]bool{}
	for _, backend := range v.Backends() {
		reported[backend.Name] = true
	}
	statuses := a.statuses()
	for _, backend := range current.Profile.Backends {
		if !reported[backend.Name] {
			missing = append(missing, notReported(backend.Name, statuses[backend.Name]))
		}
	}
	return append(missing, a.unregistered(v)...)
}

// notReported says why a backend has not reported yet.
func notReported(name string, s supervisor.Status) string {
	switch {
	case s.LastError == "":
		return "backend " + name + " has not reported yet"
	case s.State == supervisor.Misconfigured, s.State == supervisor.Unavailable, s.State == supervisor.Quarantined:
		return fmt.Sprintf("backend %s is %s: %s", name, s.State, s.LastError)
	}
	return fmt.Sprintf("backend %s has not reported yet; its last failure: %s", name, s.LastError)
}

// unregistered returns the resources that kubelet has not accepted yet, or no longer has.
func (a *Agent) unregistered(v *round.Round) []string {
	serving := map[string]bool{}
	for _, s := range a.plugin.Status() {
		serving[s.Resource] = s.State == deviceplugin.StateServing
	}
	var missing []string
	for _, r := range v.Table.Resources {
		if (len(r.Units) > 0 || r.Held) && !serving[r.Name] {
			missing = append(missing, "kubelet has not taken resource "+r.Name+" yet")
		}
	}
	return missing
}
