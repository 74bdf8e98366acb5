package agent

import (
	"path/filepath"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/supervisor"
)

// byLabels reports whether the node's labels choose the profile: none is named, and there
// is an API server to ask.
func (o Options) byLabels() bool { return o.Profile == "" && o.Cluster != nil }

// openCluster makes what needs the API server, if there is one. It does not
// contact it.
func (a *Agent) openCluster() {
	if a.opts.Cluster == nil {
		return
	}
	a.events = events.New(events.Options{
		Client: a.opts.Cluster, Node: a.opts.NodeName, Log: a.log, Timing: a.opts.Timing.Events,
	})
	if !a.opts.byLabels() {
		return
	}
	a.selection = profile.Open(profile.Options{
		Nodes: a.opts.Cluster.NodeMetadata(a.opts.NodeName), Node: a.opts.NodeName, Path: filepath.Join(a.opts.StateDir, "selection"),
		Log: a.log, Timing: a.opts.Timing.Selection,
	})
}

// openSwitch chooses the first plan.
func (a *Agent) openSwitch(loaded profile.Loaded) (err error) {
	options := profile.SwitchOptions{
		Path: a.opts.ConfigPath, Name: a.opts.Profile, Node: a.opts.NodeName, Labels: a.selection, Keeper: a.keeper, Limit: a.opts.Timing.SwitchLimit,
		Statuses: a.supervisor.Status, Wake: a.poke, Nodes: a.opts.HostPaths.nodes(), Events: a.events, Log: a.log,
		Apply: func(specs []supervisor.Spec, policies map[string]inventory.Policy) {
			a.inventory.SetPolicies(policies)
			a.supervisor.Apply(specs)
		},
	}
	a.plans, err = profile.NewSwitch(options, loaded)
	return err
}
