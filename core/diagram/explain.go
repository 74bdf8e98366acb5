package diagram

import (
	"cmp"
	"context"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// Explain answers a question about a resource. The error is a sentence on what is wrong
// with the question. After the end of ctx the runner-up is not looked for.
func Explain(ctx context.Context, r Resource, q Question) (Choice, error) {
	request, notes, err := r.ask(q)
	if err != nil {
		return Choice{}, err
	}
	switch {
	case r.Policy == topology.None:
		notes = append(notes, "Kubelet picks by itself: the policy is none")
	case !r.Topology.Helps():
		notes = append(notes, "Kubelet picks by itself: the units are all alike")
	}
	e := r.Topology.Explain(ctx, request)
	links := newPairTable(r)
	c := Choice{
		Resource: r.Name, Policy: string(r.Policy), Size: q.Size, Units: len(r.Units),
		Must: request.Must, Available: nonNil(request.Available), Notes: notes, Missing: e.Missing,
		Chosen: links.set(e.Result), Partial: e.Partial,
		Compared: []Compared{}, Method: string(e.Method), Exact: e.Exact, Missed: e.Missed,
	}
	var other []topology.Part
	if e.RunnerUp != nil {
		set := links.set(*e.RunnerUp)
		c.RunnerUp, c.Decides = &set, "ids"
		other = r.Topology.Parts(*e.RunnerUp)
	}
	for i, part := range r.Topology.Parts(e.Result) {
		if part.Value < 0 && part.Aspect != topology.WeakestLink {
			continue // nobody has counted it
		}
		compared := Compared{Part: string(part.Aspect), Better: "more", Chosen: part.Value}
		if part.Less {
			compared.Better = "less"
		}
		if other != nil {
			compared.RunnerUp = &other[i].Value
			if c.Decides == "ids" && part.Compare(other[i]) != 0 {
				c.Decides = compared.Part
			}
		}
		c.Compared = append(c.Compared, compared)
	}
	return c, nil
}

// pairTable has the links between units.
type pairTable struct {
	devices map[string]*inventory.Device // by unit
	links   map[[2]string]Link           // by devices, in natural order
}

func newPairTable(r Resource) *pairTable {
	t := &pairTable{devices: make(map[string]*inventory.Device, len(r.Units)), links: map[[2]string]Link{}}
	for _, u := range r.Units {
		t.devices[u.ID] = u.Device
	}
	for _, l := range describeLinks(r.Topology.Devices()) {
		if !l.OneWay {
			t.links[[2]string{l.A, l.B}] = l
		}
	}
	return t
}

// set is a result as people and programs see it.
func (t *pairTable) set(r topology.Result) Set {
	s := Set{Units: slices.SortedFunc(slices.Values(r.IDs), natural), Links: []Pairs{}, Left: left(r.Left)}
	if s.Units == nil {
		s.Units = []string{}
	}
	var devices []*inventory.Device
	for _, id := range s.Units {
		if d := t.devices[id]; d != nil && !slices.Contains(devices, d) {
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return natural(a.ID, b.ID) })
	counted := map[Pairs]int{}
	for i, a := range devices {
		for _, b := range devices[i+1:] {
			l := t.links[[2]string{a.ID, b.ID}]
			counted[Pairs{Kind: l.Kind, Count: l.Count, Distance: l.Distance, Weight: l.Weight}]++
		}
	}
	for pairs, n := range counted {
		pairs.Pairs = n
		s.Links = append(s.Links, pairs)
	}
	slices.SortFunc(s.Links, func(a, b Pairs) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Count, b.Count), cmp.Compare(a.Distance, b.Distance))
	})
	return s
}

func left(l topology.Left) Left {
	out := Left{Units: l.Units}
	for _, sets := range []struct {
		to *(*int)
		n  int
	}{{&out.Eights, l.Eights}, {&out.Fours, l.Fours}, {&out.Pairs, l.Pairs}} {
		if sets.n >= 0 {
			*sets.to = &sets.n
		}
	}
	return out
}

func nonNil(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}
