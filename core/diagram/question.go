package diagram

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/topology"
)

// ask makes a request of a question. The error is shown to users.
func (r *Resource) ask(q Question) (request topology.Request, notes []string, err error) {
	switch {
	case q.Size < 1:
		return request, nil, fmt.Errorf("request 1 unit or more, not %d", q.Size)
	case q.Size > len(r.Units):
		return request, nil, fmt.Errorf("%s requested, but %s has %s", isAre(q.Size, "unit"), r.Name, count(len(r.Units), "unit"))
	}
	units := make(map[string]Used, len(r.Units))
	for _, u := range r.Units {
		units[u.ID] = u
	}
	must := distinct(q.Must)
	if len(must) > q.Size {
		return request, nil, fmt.Errorf("%d units must be included, but %d requested", len(must), q.Size)
	}
	for _, id := range must {
		u, ok := units[id]
		if !ok {
			return request, nil, r.unknown(id)
		}
		if note := mustNote(u); note != "" {
			notes = append(notes, note)
		}
	}
	available, more, err := r.available(q, units)
	for _, id := range must {
		if !slices.Contains(available, id) {
			available = append(available, id)
		}
	}
	slices.SortFunc(available, natural)
	return topology.Request{Available: available, Must: must, Size: q.Size}, append(notes, more...), err
}

// mustNote describes a unit that must be included and is not free; "" if it is free.
func mustNote(u Used) string {
	switch {
	case !u.Healthy:
		return u.ID + " is unhealthy: it is included as requested"
	case u.Held && u.Holder != "":
		return fmt.Sprintf("%s is held by %s: it is included as requested", u.ID, u.Holder)
	case u.Held:
		return u.ID + " is in use: it is included as requested"
	}
	return ""
}

// available returns the healthy units that may be chosen.
func (r *Resource) available(q Question, units map[string]Used) (ids, notes []string, err error) {
	if len(q.Available) == 0 {
		for _, u := range r.Units {
			if u.Healthy && (q.All || !u.Held) {
				ids = append(ids, u.ID)
			}
		}
		return ids, nil, nil
	}
	requested := map[string]bool{}
	for _, name := range distinct(q.Available) {
		found := r.named(name, units)
		if len(found) == 0 {
			return nil, nil, r.unknown(name)
		}
		for _, id := range found {
			requested[id] = true
		}
	}
	for _, u := range r.Units {
		switch {
		case !requested[u.ID]:
		case u.Healthy:
			ids = append(ids, u.ID)
		default:
			notes = append(notes, u.ID+" is unhealthy: it is not chosen")
		}
	}
	return ids, notes, nil
}

// named returns the units with a name: one unit, or those of a device or its partitions.
func (r *Resource) named(name string, units map[string]Used) []string {
	if _, ok := units[name]; ok {
		return []string{name}
	}
	var ids []string
	for _, u := range r.Units {
		if u.Device.ID == name || u.Device.Parent == name {
			ids = append(ids, u.ID)
		}
	}
	return ids
}

// unknown returns the error about a name without a unit, with a suggestion.
func (r *Resource) unknown(name string) error {
	if of := r.named(name, nil); len(of) > 0 {
		slices.SortFunc(of, natural)
		return fmt.Errorf("%q is a device of %s with several units; name one of %s", name, r.Name, span(of))
	}
	var known []string
	for _, u := range r.Units {
		known = append(known, u.ID)
	}
	return fmt.Errorf("%s has no unit %q%s", r.Name, name, suggestion.DidYouMean(name, known))
}

// distinct returns names without repetitions.
func distinct(names []string) (out []string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}
