package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
)

// plan is one profile, ready to be put in force. It never changes.
type plan struct {
	profile *config.Profile
	mapper  *resource.Mapper
	// reason is why the profile was chosen.
	reason string
	// source is the configuration file that it is from.
	source []byte
	// made is when the configuration was loaded.
	made time.Time
}

func newPlan(choice profile.Choice, source []byte) (*plan, error) {
	mapper, err := resource.Compile(choice.Profile)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", choice.Profile.Name, err)
	}
	return &plan{profile: choice.Profile, mapper: mapper, reason: choice.Reason, source: source, made: time.Now()}, nil
}

// idle reports whether the plan is to do nothing: no profile is chosen yet.
func (p *plan) idle() bool { return len(p.profile.Backends) == 0 }

// backend returns the configuration of one backend, or nil.
func (p *plan) backend(name string) *config.Backend { return p.profile.Backend(name) }

// defined returns the backends whose devices may need CDI definitions.
func (p *plan) defined() []string {
	var names []string
	for _, b := range p.profile.Backends {
		if slices.ContainsFunc(p.profile.Resources, func(r config.Resource) bool {
			return r.Injection != config.InjectPlain && cmp.Or(r.Backend, b.Name) == b.Name
		}) {
			names = append(names, b.Name)
		}
	}
	return names
}

// specs is what the supervisor must run for the plan.
func (p *plan) specs() []supervisor.Spec {
	specs := make([]supervisor.Spec, 0, len(p.profile.Backends))
	for _, b := range p.profile.Backends {
		specs = append(specs, supervisor.Spec{
			Name: b.Name, Command: b.Command, Checksum: b.Checksum, Env: b.Env,
			Settings: json.RawMessage(b.Settings), Heartbeat: time.Duration(b.Heartbeat),
		})
	}
	return specs
}

// part is the snapshot without the backends that the plan does not have: those
// that are starting for the next one, and those that were left behind. Selectors
// need not name a backend, so they would take the devices in.
func (p *plan) part(all *inventory.Snapshot) *inventory.Snapshot {
	part := &inventory.Snapshot{Generation: all.Generation}
	for _, backend := range all.Backends {
		if p.backend(backend.Name) != nil {
			part.Backends = append(part.Backends, backend)
		}
	}
	return part
}

// policies are health's, by backend.
func (p *plan) policies() map[string]health.BackendPolicy {
	policies := map[string]health.BackendPolicy{}
	for _, b := range p.profile.Backends {
		policies[b.Name] = health.BackendPolicy{
			Holdover: time.Duration(b.Holdover), Delay: time.Duration(b.Recovery.Delay),
		}
	}
	return policies
}

// editPolicy is what the configuration lets the container edits of a backend contain.
func (a *Agent) editPolicy(b *config.Backend) inventory.Policy {
	allowed := b.Allow.Expand()
	return inventory.Policy{
		Allowed: inventory.EditScope{
			Devices: allowed.Devices, Mounts: allowed.Mounts, ReadOnlyMounts: allowed.ReadOnlyMounts, Hooks: allowed.Hooks,
			Env: allowed.Env, GIDs: allowed.GIDs,
		},
		Nodes: a.opts.HostPaths.nodes(),
	}
}

// nodes gives access to the host's device nodes.
func (h HostPaths) nodes() inventory.HostNodes { return inventory.HostNodes{Devfs: h.Devfs} }
