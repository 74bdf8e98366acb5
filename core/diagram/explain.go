package diagram

import (
	"context"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// Explain answers a question about a resource. The error is about the question and is shown
// to users. When ctx ends, the search for a runner-up ends.
func Explain(ctx context.Context, r Resource, q Question) (Choice, error) {
	request, notes, err := r.ask(q)
	if err != nil {
		return Choice{}, err
	}
	switch {
	case r.Policy == topology.None:
		notes = append(notes, "Kubelet chooses on its own: the policy is none")
	case !r.Topology.Helps():
		notes = append(notes, "Kubelet chooses on its own: the units are all alike")
	}
	e := r.Topology.Explain(ctx, request)
	byUnit := make(map[string]*inventory.Device, len(r.Units))
	for _, u := range r.Units {
		byUnit[u.ID] = u.Device
	}
	c := Choice{
		Resource: r.Name, Policy: string(r.Policy), Size: q.Size, Units: len(r.Units),
		Must: request.Must, Available: nonNil(request.Available), Notes: notes, Missing: e.Missing,
		Chosen: describeSet(e.Result, byUnit), Partial: e.Partial,
		Compared: []Compared{}, Method: string(e.Method), Exact: e.Exact(),
	}
	var other []topology.Part
	if e.RunnerUp != nil {
		set := describeSet(*e.RunnerUp, byUnit)
		c.RunnerUp, c.Decides = &set, "ids"
		other = e.RunnerUp.Parts
	}
	for i, part := range e.Parts {
		compared := Compared{Part: string(part.Aspect), Better: "more", Chosen: part.Value}
		if part.Less {
			compared.Better = "less"
		}
		if other != nil {
			compared.RunnerUp = &other[i].Value
			if c.Decides == "ids" && part.Compare(other[i]) != 0 {
				c.Decides, c.RunnerUpBetter = compared.Part, part.Compare(other[i]) < 0
			}
		}
		c.Compared = append(c.Compared, compared)
	}
	return c, nil
}

// describeSet describes a result; byUnit has the devices by unit.
func describeSet(r topology.Result, byUnit map[string]*inventory.Device) Set {
	s := Set{Units: nonNil(slices.SortedFunc(slices.Values(r.IDs), natural)), Links: []Pairs{}, Left: Left{Units: r.Left}}
	seen := make(map[inventory.Key]bool, len(s.Units))
	var devices []*inventory.Device
	for _, id := range s.Units {
		if d := byUnit[id]; d != nil && !seen[d.Key] {
			seen[d.Key] = true
			devices = append(devices, d)
		}
	}
	unlinked := len(devices) * (len(devices) - 1) / 2
	counted := map[Pairs]int{}
	eachLink(devices, func(l Link) {
		if !l.OneWay {
			counted[Pairs{Kind: l.Kind, Count: l.Count, Distance: l.Distance, Path: l.Path, Weight: l.Weight}]++
			unlinked--
		}
	})
	if unlinked > 0 {
		counted[Pairs{}] = unlinked
	}
	for pairs, n := range counted {
		pairs.Pairs = n
		s.Links = append(s.Links, pairs)
	}
	slices.SortFunc(s.Links, Pairs.compare)
	return s
}

func nonNil(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}
