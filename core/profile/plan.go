package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/reference"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Plan is one profile, ready to be put in force. It never changes.
type Plan struct {
	// Profile has no backends as long as none is chosen.
	Profile *config.Profile
	Mapper  *resource.Mapper
	// References are the names that the profile uses.
	References *reference.Set
	// reason is why the profile was chosen, as a clause.
	reason string
	// file and source are the configuration file that it is from, and at is the profile's path in it.
	file, at string
	source   []byte
	// positions are those of the fields of source.
	positions func() config.Positions
}

// newPlan returns the plan for a choice among the profiles of loaded, which is from the file at path.
func newPlan(choice Choice, path string, loaded Loaded) (*Plan, error) {
	mapper, err := resource.Compile(choice.Profile)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", choice.Profile.Name, err)
	}
	p := &Plan{Profile: choice.Profile, Mapper: mapper, References: reference.Find(choice.Profile), reason: choice.Reason, file: path, source: loaded.source}
	if loaded.config != nil {
		p.at = fmt.Sprintf("profiles[%d]", slices.IndexFunc(loaded.config.Profiles, func(other config.Profile) bool { return other.Name == choice.Profile.Name }))
	}
	p.positions = sync.OnceValue(func() config.Positions { return config.PositionsIn(p.source) })
	return p, nil
}

// Place returns the place of a field of the profile, as errors of the configuration have it. The position is that in the
// file when the plan was made: a later change of comments alone makes no other plan.
func (p *Plan) Place(field string) string {
	e := config.Error{File: p.file, Field: p.at + "." + field}
	e.Position = p.positions().Of(e.Field)
	return strings.TrimSuffix(e.Error(), ": ")
}

// Idle reports whether there is nothing to do, because no profile is chosen.
func (p *Plan) Idle() bool { return len(p.Profile.Backends) == 0 }

// lacks reports whether a plan has no backend of some name that another one has.
func (p *Plan) lacks(other *Plan) bool {
	return slices.ContainsFunc(other.Profile.Backends, func(b config.Backend) bool { return p.Profile.Backend(b.Name) == nil })
}

// Defined returns the backends whose devices may need CDI definitions.
func (p *Plan) Defined() []string {
	var names []string
	for _, b := range p.Profile.Backends {
		if slices.ContainsFunc(p.Profile.Resources, func(r config.Resource) bool {
			return r.Injection != config.InjectPlain && cmp.Or(r.Backend, b.Name) == b.Name
		}) {
			names = append(names, b.Name)
		}
	}
	return names
}

// Part returns the snapshot without the backends that the plan does not have: those that
// start for the next plan, and those that are being stopped. A selector need not name a
// backend, so it would select their devices, too.
func (p *Plan) Part(all *inventory.Snapshot) *inventory.Snapshot {
	part := &inventory.Snapshot{Generation: all.Generation}
	for _, backend := range all.Backends {
		if p.Profile.Backend(backend.Name) != nil {
			part.Backends = append(part.Backends, backend)
		}
	}
	return part
}

// HealthPolicies are health's policies, by backend.
func (p *Plan) HealthPolicies() map[string]health.BackendPolicy {
	policies := map[string]health.BackendPolicy{}
	for _, b := range p.Profile.Backends {
		policies[b.Name] = health.BackendPolicy{
			Holdover: time.Duration(b.Holdover), Delay: time.Duration(b.Recovery.Delay),
		}
	}
	return policies
}

// specOf is how the supervisor runs a backend.
func specOf(b *config.Backend) supervisor.Spec {
	return supervisor.Spec{
		Name: b.Name, Command: b.Command, Checksum: b.Checksum, ManifestChecksum: b.ManifestChecksum, Env: b.Env,
		Settings: json.RawMessage(b.Settings), Heartbeat: time.Duration(b.Heartbeat),
		Sandbox: b.Policy(),
	}
}

// EditPolicy is what the configuration lets the container edits of a backend contain.
func EditPolicy(b *config.Backend, host inventory.Host) inventory.Policy {
	gids := make([]uint32, len(b.Allow.GIDs))
	for i, gid := range b.Allow.GIDs {
		gids[i] = uint32(gid) //nolint:gosec // validated
	}
	return inventory.Policy{
		AcceptDeclared: b.Allow.Declared == config.AcceptDeclared,
		Allowed: inventory.EditScope{
			Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, Hooks: b.Allow.Hooks, Env: b.Allow.Env, GIDs: gids, NetDevices: b.Allow.NetDevices,
		},
		Host: host,
	}
}
