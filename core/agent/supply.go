package agent

import (
	"time"

	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/topology"
)

// supply is what a container that asks for a resource now is given devices from.
type supply struct {
	resource *resource.Resource
	// topology is what answers kubelet, with the options that the configuration says.
	topology *topology.Topology
	// free are the IDs of the units that are healthy and held by no container as far
	// as is known, in the resource's order. Kubelet, which decides that, may know of
	// containers that the agent has yet to see.
	free []string
}

// supplies are those of all resources that kubelet may be told of, in the order of
// the table; also of a nil view.
func (a *Agent) supplies(v *round.Round) []supply {
	if v == nil {
		return nil
	}
	type unit struct{ resource, id string }
	held := map[unit]bool{}
	for _, holds := range a.book.Holds() {
		for _, hold := range holds {
			held[unit{hold.Resource, hold.Unit}] = true
		}
	}
	supplies := make([]supply, 0, len(v.Table.Resources))
	for _, r := range v.Table.Resources {
		s := supply{resource: r, topology: a.plugin.Topology(r.Name)}
		if s.topology == nil {
			continue // it is about to be told of
		}
		for _, u := range r.Units {
			if u.Verdict.Healthy && !held[unit{r.Name, u.ID}] {
				s.free = append(s.free, u.ID)
			}
		}
		supplies = append(supplies, s)
	}
	return supplies
}

// chosen counts a choice of units for a container.
func (a *Agent) chosen(name string, choice topology.Result, took time.Duration) {
	a.tally.Chosen(name, string(choice.Method), took)
}
