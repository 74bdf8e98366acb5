package agent

import (
	"time"

	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
)

// openFeatures makes what publishes features, if a directory is given for them.
func (a *Agent) openFeatures() {
	if a.opts.FeaturesDir != "" {
		a.features = features.New(features.Options{Dir: a.opts.FeaturesDir, Log: a.log, Timing: a.opts.Timing.Features})
	}
}

// publishFeatures publishes what the backends of the plan have found, and returns when to
// do so again although nothing changes. Before there is a plan nothing is known, and what
// was published before stays.
func (a *Agent) publishFeatures(v *round.Round) time.Time {
	if a.features == nil || v.Idle() {
		return time.Time{}
	}
	set, next := a.finder.Find(v.Profile, v.Snapshot, v.Replicas(), time.Now())
	a.features.Publish(set)
	return next
}

// reportFeatures adds what was published, and the problems with it.
func (a *Agent) reportFeatures(report *status.Report) {
	if a.features == nil {
		return
	}
	state, problems := a.features.State()
	report.Features = &status.Features{Target: "file " + state.Path, Published: state.Published}
	if !state.At.IsZero() {
		report.Features.At = &state.At
	}
	if state.Problem != "" {
		report.Problems = append(report.Problems, status.Problem{Message: state.Problem})
	}
	for _, problem := range problems {
		report.Problems = append(report.Problems, status.Problem{Backend: problem.Backend, Message: "features: " + problem.Message})
	}
}
