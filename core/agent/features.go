package agent

import (
	"errors"
	"time"

	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
)

// checkFeatures refuses what cannot be published.
func (o Options) checkFeatures() error {
	switch {
	case o.NodeLabels && o.FeaturesDir != "":
		// Node Feature Discovery makes labels of the same names, and would own them.
		return errors.New("the node's features are published as a feature file or as labels of the Node, not both: choose --features-dir or --node-labels")
	case o.NodeLabels && o.Cluster == nil:
		return errors.New("labels of the Node need the API server, and none is configured: run in a pod with a service account, or give --kubeconfig")
	}
	return nil
}

// openFeatures makes what publishes features, if they are wanted.
func (a *Agent) openFeatures() {
	options := features.Options{Log: a.log, Timing: a.opts.Timing.Features}
	switch {
	case a.opts.FeaturesDir != "":
		options.Target = features.NewFile(a.opts.FeaturesDir)
	case a.opts.NodeLabels:
		options.Target = features.NewLabels(a.opts.Cluster, a.opts.NodeName)
	default:
		return
	}
	a.features = features.New(options)
}

// publishFeatures says what the backends of the plan have found, and returns when
// to say it again though nothing changes. Before there is a plan nothing is known,
// and what was published before stays.
func (a *Agent) publishFeatures(v *round.Round) time.Time {
	if a.features == nil || v.Idle() {
		return time.Time{}
	}
	set, next := a.finder.Find(v.Profile, v.Snapshot, v.Replicas(), time.Now())
	a.features.Publish(set)
	return next
}

// reportFeatures adds what was published, and why not.
func (a *Agent) reportFeatures(report *status.Report) {
	if a.features == nil {
		return
	}
	state, problems := a.features.State()
	report.Features = &status.Features{Target: state.Target, Published: state.Published}
	if !state.At.IsZero() {
		report.Features.At = &state.At
	}
	for _, message := range state.Problems {
		report.Problems = append(report.Problems, status.Problem{Message: message})
	}
	for _, problem := range problems {
		report.Problems = append(report.Problems, status.Problem{Backend: problem.Backend, Message: "features: " + problem.Message})
	}
}
