package status

import (
	"os"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Report computes the report. Of an agent on standby, it has the backends, and what is missing
// before the agent could take over.
func (f Facts) Report() Report {
	current := f.Profile
	r := Report{
		Role: f.Agent.Role, Node: f.Agent.Node, Version: Version, PID: os.Getpid(), StartedAt: f.Agent.StartedAt, Others: f.Agent.Others,
		CDIDir: f.Agent.CDIDir, KubeletDir: f.Agent.KubeletDir, KubeletRootDir: f.Agent.KubeletRootDir,
		Config:   current,
		Cluster:  f.Cluster,
		Backends: []Backend{}, Resources: []Resource{}, Problems: []Problem{},
	}
	if f.Agent.Role == RoleStandby {
		f.addBackends(&r)
		r.Problems, r.NotReady = append(r.Problems, f.Problems...), f.NotReady()
		return r
	}
	r.KubeletMissing = f.Kubelet.Missing
	for _, note := range append(slices.Clone(current.Problems), f.Kubelet.Missing) {
		if note != "" {
			r.Problems = append(r.Problems, Problem{Message: note})
		}
	}
	r.Problems = append(r.Problems, f.Problems...)
	for _, c := range f.Kubelet.Conflicts {
		r.Problems = append(r.Problems, Problem{Resource: c.Resource, Message: c.Message})
	}
	f.addBackends(&r)
	f.addResources(&r)
	f.addDrivers(&r)
	r.Problems = slices.Concat(r.Problems, f.parameterProblems(), f.unknownProblems(), f.hardwareProblems(), f.unselectedProblems(), f.deviceProblems())
	f.addFeatures(&r)
	for _, p := range f.Telemetry.Problems() {
		r.Problems = append(r.Problems, Problem{Backend: p.Backend, Message: p.Message})
	}
	r.NotReady = f.NotReady()
	r.Problems = bound(fold(r.Problems))
	return r
}

func (f Facts) addBackends(r *Report) {
	known := map[string]*inventory.Backend{}
	for _, backend := range f.Inventory.Backends {
		known[backend.Name] = backend
	}
	for _, s := range f.Backends {
		entry := Backend{
			Name: s.Name, Vendor: s.Description.Vendor, Version: s.Description.Version,
			State: string(s.State), Since: s.Since, PID: s.PID, Restarts: s.Restarts, LastError: s.LastError, Paused: s.Paused,
			Needs: needs(f.Profile.InForce.Profile.Backend(s.Name), s),
		}
		if b := f.Profile.InForce.Profile.Backend(s.Name); b != nil && s.State == supervisor.Running {
			entry.Sandbox = sandboxOf(b, s)
		}
		if s.Description.Name != s.Name {
			entry.ReportedName = s.Description.Name
		}
		if !s.RetryAt.IsZero() {
			entry.RetryAt = &s.RetryAt
		}
		if backend := known[s.Name]; backend != nil {
			entry.Devices, entry.Generation = len(backend.Devices), backend.Generation
			for _, p := range backend.Problems {
				r.Problems = append(r.Problems, Problem{Backend: s.Name, Device: p.Device, Message: p.Message})
			}
		}
		wrong := slices.Clone(s.Problems)
		named := func(problem string) bool { return strings.Contains(problem, s.LastError) }
		if s.State != supervisor.Running && s.Paused == "" && s.LastError != "" && !slices.ContainsFunc(wrong, named) {
			wrong = append(wrong, s.LastError)
		}
		for _, problem := range wrong {
			r.Problems = append(r.Problems, Problem{Backend: s.Name, Message: problem})
		}
		r.Backends = append(r.Backends, entry)
	}
}

// deviceProblems are the faults of devices.
func (f Facts) deviceProblems() (problems []Problem) {
	f.Round.Each(func(device *inventory.Device, verdict health.Verdict) {
		for _, fault := range verdict.Faults {
			message := "unhealthy: " + fault.Code + ": " + fault.Message + fault.Recovery.Need()
			if fault.From != "" {
				message += "; it is the fault of " + fault.From + ", which this is a part of"
			}
			if fault.Recovery == inventory.RecoveryReset {
				if note := f.Reset(device); note != "" {
					message += "; " + note
				}
			}
			problems = append(problems, Problem{Backend: device.Backend, Device: device.ID, Message: message})
		}
	})
	return problems
}

// addFeatures adds what is published of the node, and why not.
func (f Facts) addFeatures(r *Report) {
	if f.Features == nil {
		return
	}
	state, problems := f.Features.State()
	r.Features = &Features{Target: "file " + state.Path, Published: state.Published}
	if !state.At.IsZero() {
		r.Features.At = &state.At
	}
	if state.Problem != "" {
		r.Problems = append(r.Problems, Problem{Message: state.Problem})
	}
	for _, problem := range problems {
		r.Problems = append(r.Problems, Problem{Backend: problem.Backend, Message: "features: " + problem.Message})
	}
}
