package agent

import (
	"context"

	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
)

// newConflicts makes what finds conflicting device plugins.
func (a *Agent) newConflicts() *conflict.Detector {
	return conflict.New(conflict.Options{
		Advertised:  func() conflict.Devices { return a.plugin.Advertised() },
		Allocatable: func(ctx context.Context) (conflict.Devices, error) { return a.book.Allocatable(ctx) },
		Found:       func(c conflict.Conflict) { a.events.Record(events.ResourceContested, "%s", c.Message) },
		Register:    a.plugin.Renew, Sockets: a.plugin.OtherSockets, Log: a.log, Timing: a.opts.Timing.Conflict,
	})
}

// reportConflicts adds the conflicting device plugins.
func (a *Agent) reportConflicts(report *status.Report) {
	for _, c := range a.conflicts.Conflicts() {
		report.Problems = append(report.Problems, status.Problem{Resource: c.Resource, Message: c.Message})
	}
}

// conflicting returns the resources whose devices kubelet may not have from this agent.
func (a *Agent) conflicting(v *round.Round) []string {
	var missing []string
	for _, c := range a.conflicts.Conflicts() {
		if v.Resource(c.Resource) != nil {
			missing = append(missing, "kubelet may not have resource "+c.Resource+" from this agent: "+c.Message)
		}
	}
	return missing
}
