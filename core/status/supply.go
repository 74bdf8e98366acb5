package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/topology"
)

// supply is what the units of a resource are chosen from.
type supply struct {
	resource *resource.Resource
	// topology is what answers kubelet, with the options that the configuration gives.
	topology *topology.Topology
}

// supplies are those of the resources that kubelet knows, and of those of dynamic resource
// allocation, in the order of the table.
func (f Facts) supplies() []supply {
	var supplies []supply
	for _, r := range f.Round.Resources() {
		if isDRA(r) {
			supplies = append(supplies, supply{r, linksOf(r)})
		} else if t := f.Kubelet.Topology(r.Name); t != nil {
			supplies = append(supplies, supply{r, t})
		}
	}
	return supplies
}

// linksOf returns the topology of a resource from which the scheduler chooses.
func linksOf(r *resource.Resource) *topology.Topology {
	units := make([]topology.Unit, len(r.Devices))
	for i, d := range r.Devices {
		units[i] = topology.Unit{ID: d.ID, Device: d.Device, Healthy: d.Verdict.Healthy}
	}
	return topology.Prepare(units, topology.Options{Policy: topology.None})
}

// topology implements Source.
func (f Facts) topology(name string) ([]diagram.Topology, error) {
	supplies := f.supplies()
	if name != "" {
		one, err := supplyOf(supplies, name)
		if err != nil {
			return nil, err
		}
		supplies = []supply{one}
	}
	all := []diagram.Topology{}
	for _, s := range supplies {
		all = append(all, diagram.Describe(f.diagramOf(s)))
	}
	return all, nil
}

// explain implements Source.
func (f Facts) explain(ctx context.Context, question diagram.Question) (diagram.Choice, error) {
	s, err := supplyOf(f.supplies(), question.Resource)
	if err != nil {
		return diagram.Choice{}, err
	}
	if isDRA(s.resource) {
		return diagram.Choice{}, fmt.Errorf("resource %s is served by dynamic resource allocation, so the scheduler chooses its devices: explain a claim, with --claim", s.resource.Name)
	}
	return diagram.Explain(ctx, f.diagramOf(s), question)
}

// errNothing answers questions about an agent without resources.
var errNothing = errors.New("the agent serves no resource; see accelmux status")

// supplyOf returns that of a resource; without a name, that of the only one with units.
func supplyOf(supplies []supply, name string) (supply, error) {
	if len(supplies) == 0 {
		return supply{}, errNothing
	}
	if name == "" && len(supplies) == 1 {
		return supplies[0], nil
	}
	if name == "" {
		stocked := slices.DeleteFunc(slices.Clone(supplies), func(s supply) bool { return len(s.resource.Devices) == 0 })
		if len(stocked) == 1 {
			return stocked[0], nil
		}
	}
	names := make([]string, len(supplies))
	for i, s := range supplies {
		if s.resource.Name == name {
			return s, nil
		}
		names[i] = s.resource.Name
	}
	if name == "" {
		return supply{}, fmt.Errorf("there are several resources, so name one: %s", strings.Join(names, ", "))
	}
	return supply{}, fmt.Errorf("the node has no resource %q%s", name, suggestion.OrAll(name, "there are", names))
}

// diagramOf is a supply, with which of its units are allocated.
func (f Facts) diagramOf(s supply) diagram.Resource {
	r := diagram.Resource{
		Name: s.resource.Name, Policy: topology.Policy(s.resource.Allocation.Policy), Topology: s.topology,
	}
	if isDRA(s.resource) {
		r.Policy = "" // the scheduler's
	}
	for _, u := range deviceplugin.Units(s.resource) {
		used := diagram.Used{Unit: topology.Unit{ID: u.ID, Device: u.Device, Healthy: u.Verdict.Healthy}}
		used.Held, used.Holder = f.unitHolder(s.resource, &u)
		for _, a := range f.Allocations[u.Device.Key] {
			for capacity, amount := range a.Amounts {
				if used.Taken == nil {
					used.Taken = map[string]int64{}
				}
				used.Taken[capacity] += amount
			}
		}
		r.Units = append(r.Units, used)
	}
	return r
}

// unitHolder reports whether a container or a claim holds a unit, and which: namespace/pod/container,
// or "" while kubelet has not named it; or the claim. A device of dynamic resource allocation is
// held by whatever unit.
func (f Facts) unitHolder(r *resource.Resource, u *deviceplugin.Unit) (held bool, holder string) {
	for _, a := range f.Allocations[u.Device.Key] {
		if a.Claim != nil {
			return true, "claim " + a.Claim.Namespace + "/" + a.Claim.Name
		}
		if !isDRA(r) && (a.Resource != r.Name || a.Unit != u.ID) {
			continue
		}
		for _, c := range a.Containers {
			return true, c.Namespace + "/" + c.Pod + "/" + c.Name
		}
		held = true
	}
	return held, ""
}
