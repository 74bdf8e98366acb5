package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/topology"
)

// Topology implements status.Source.
func (a *Agent) Topology(name string) ([]diagram.Topology, error) {
	all := []diagram.Topology{}
	supplies := a.supplies(a.view.Load())
	if name != "" {
		one, err := supplyOf(supplies, name)
		if err != nil {
			return nil, err
		}
		supplies = []supply{one}
	}
	for _, s := range supplies {
		all = append(all, diagram.Describe(a.diagramOf(s)))
	}
	return all, nil
}

// Explain implements status.Source.
func (a *Agent) Explain(ctx context.Context, question diagram.Question) (diagram.Choice, error) {
	s, err := supplyOf(a.supplies(a.view.Load()), question.Resource)
	if err != nil {
		return diagram.Choice{}, err
	}
	return diagram.Explain(ctx, a.diagramOf(s), question)
}

// errNothing is where the agent has no resource.
var errNothing = errors.New("the agent has no resource to offer; accelmux status says why")

// supplyOf is that of a resource; of the only one with units if there is no name.
func supplyOf(supplies []supply, name string) (supply, error) {
	if len(supplies) == 0 {
		return supply{}, errNothing
	}
	if name == "" && len(supplies) == 1 {
		return supplies[0], nil
	}
	if name == "" {
		stocked := slices.DeleteFunc(slices.Clone(supplies), func(s supply) bool { return len(s.resource.Units) == 0 })
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
	hint := suggestion.DidYouMean(name, names)
	if hint == "" {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return supply{}, fmt.Errorf("the node has no resource %q%s", name, hint)
}

// diagramOf is a supply with who uses what of it.
func (a *Agent) diagramOf(s supply) diagram.Resource {
	free := make(map[string]bool, len(s.free))
	for _, id := range s.free {
		free[id] = true
	}
	r := diagram.Resource{
		Name: s.resource.Name, Policy: topology.Policy(s.resource.Allocation.Policy), Topology: s.topology,
		Units: make([]diagram.Used, 0, len(s.resource.Units)),
	}
	for _, u := range s.resource.Units {
		used := diagram.Used{Unit: topology.Unit{ID: u.ID, Device: u.Device, Healthy: u.Verdict.Healthy}}
		if !free[u.ID] {
			used.Held, used.Holder = a.unitHolder(s.resource.Name, &u)
		}
		r.Units = append(r.Units, used)
	}
	return r
}

// unitHolder reports whether a container holds a unit, and which: namespace/pod/container,
// or "" while kubelet has not named it.
func (a *Agent) unitHolder(name string, u *resource.Unit) (held bool, holder string) {
	for _, h := range a.book.Holders(u.Device.Key) {
		if h.Resource != name || h.Unit != u.ID {
			continue
		}
		held = true
		if h.Pod != "" {
			return true, h.Namespace + "/" + h.Pod + "/" + h.Container
		}
	}
	return held, ""
}

// Topology implements status.Source.
func (t *turns) Topology(string) ([]diagram.Topology, error) { return []diagram.Topology{}, nil }

// Explain implements status.Source.
func (t *turns) Explain(context.Context, diagram.Question) (diagram.Choice, error) {
	return diagram.Choice{}, errNothing
}
