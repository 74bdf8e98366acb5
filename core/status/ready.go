package status

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/supervisor"
)

// NotReady returns what is missing before the node can use what the profile promises:
// backends that have not reported, resources that kubelet does not have from this agent, and
// drivers whose slices the API server has not accepted; empty if nothing is. A broken device does not count: the agent has done its part.
// Of an agent on standby, it returns what is missing before the agent could take over.
func (f Facts) NotReady() []string { return f.without(Driver.missing) }

// NotConnected returns what is missing before kubelet has from this agent what it can have: what
// NotReady returns, except slices that the API server has not accepted.
func (f Facts) NotConnected() []string { return f.without(Driver.unregistered) }

// without returns what is missing, of a driver by missing.
func (f Facts) without(driver func(Driver) string) []string {
	if f.Agent.Role == RoleStandby {
		return append(append([]string{}, f.Agent.Waits...), f.notStarted()...)
	}
	missing := append([]string{}, f.Profile.Missing...)
	if f.Profile.InForce.Idle() {
		return missing
	}
	if f.Round == nil {
		return append(missing, "no profile is in force yet")
	}
	statuses := f.statuses()
	for _, backend := range f.Profile.InForce.Profile.Backends {
		if b := f.Round.Backend(backend.Name); b == nil || b.HeldOver() {
			missing = append(missing, notReported(backend.Name, statuses[backend.Name]))
		}
	}
	return append(missing, slices.Concat(f.unregistered(), f.notServed(driver), f.conflicting())...)
}

// notStarted returns the backends of the profile that do not work yet.
func (f Facts) notStarted() []string {
	var missing []string
	statuses := f.statuses()
	for _, backend := range f.Profile.InForce.Profile.Backends {
		if s := statuses[backend.Name]; !s.Applied {
			missing = append(missing, notReported(backend.Name, s))
		}
	}
	return missing
}

// statuses returns the backends by name.
func (f Facts) statuses() map[string]supervisor.Status {
	statuses := map[string]supervisor.Status{}
	for _, s := range f.Backends {
		statuses[s.Name] = s
	}
	return statuses
}

// notReported returns why a backend has not reported yet.
func notReported(name string, s supervisor.Status) string {
	switch {
	case s.Paused != "":
		return fmt.Sprintf("backend %s is paused: %s", name, s.Paused)
	case s.LastError == "":
		return "backend " + name + " has not reported yet"
	case s.State == supervisor.Misconfigured, s.State == supervisor.Unavailable, s.State == supervisor.Quarantined:
		return fmt.Sprintf("backend %s is %s: %s", name, s.State, s.LastError)
	}
	return fmt.Sprintf("backend %s has not reported yet; its last failure: %s", name, s.LastError)
}

// unregistered returns the resources that kubelet has not accepted yet, or no longer has. One that waits for claims, because
// its devices were moved back from dynamic resource allocation, is not to be accepted yet: a problem reports that.
func (f Facts) unregistered() []string {
	serving := map[string]bool{}
	for _, s := range f.Kubelet.Resources {
		serving[s.Resource] = s.State == deviceplugin.StateServing
	}
	var missing []string
	for _, r := range f.Round.ToKubelet() {
		if !isDRA(r) && (len(r.Devices) > 0 || r.Held) && !serving[r.Name] {
			missing = append(missing, "kubelet has not accepted resource "+r.Name+" yet")
		}
	}
	return missing
}

// notServed returns what the drivers of resources of dynamic resource allocation do not have yet.
func (f Facts) notServed(missingOf func(Driver) string) []string {
	var missing []string
	reported := map[string]bool{}
	for _, r := range f.Round.Resources() {
		if !isDRA(r) {
			continue
		}
		for _, d := range f.driversOf(r) {
			message := missingOf(d)
			if message == "" || reported[d.Name] {
				continue
			}
			reported[d.Name] = true
			if d.Problem != "" {
				message += ": " + d.Problem
			}
			missing = append(missing, message)
		}
	}
	return missing
}

// conflicting returns the resources whose devices kubelet may not have from this agent.
func (f Facts) conflicting() []string {
	var missing []string
	for _, c := range f.Kubelet.Conflicts {
		if r := f.Round.Resource(c.Resource); r != nil && !isDRA(r) {
			missing = append(missing, "kubelet may not have resource "+c.Resource+" from this agent: "+c.Message)
		}
	}
	return missing
}
