package agent

import (
	"context"

	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/events"
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
