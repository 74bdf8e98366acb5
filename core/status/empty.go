package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/suggestion"
)

// emptyProblems are those of resources of the profile that stay empty because of what their
// configuration says: a class that no backend has, a name made of an attribute that no
// device has.
func (f Facts) emptyProblems() []Problem {
	v := f.Round
	if v.Idle() {
		return nil
	}
	return append(classProblems(v.Profile, v.Snapshot.Backends), placeholderProblems(v.Profile, v.Snapshot.Backends)...)
}

// unselectedProblems are those of devices that no resource selects, so that no pod can get
// them. A device is in use if its parent or one of its partitions is selected. An unhealthy
// device is left out: it is a problem already, and its fault may be why nothing selects it.
func (f Facts) unselectedProblems() (problems []Problem) {
	v := f.Round
	if v.Idle() {
		return nil
	}
	explained := map[string]bool{} // by another problem
	for _, p := range v.Table.Problems {
		explained[p.Device] = true
	}
	inUse := map[inventory.Key]bool{}
	v.Each(func(d *inventory.Device, _ health.Verdict) {
		if v.IsSelected(d.Key) {
			for _, up := range v.Lineage(d.Key) {
				inUse[up] = true
			}
		}
	})
	potential := map[string]int{} // by backend
	for _, key := range v.Table.Unassigned {
		d := v.Device(key)
		if d != nil && d.Potential {
			potential[key.Backend]++
		}
		if d == nil || d.Potential || explained[key.ID] || !v.Verdict(key).Healthy || inUse[key] || slices.ContainsFunc(v.Lineage(key), v.IsSelected) {
			continue
		}
		problems = append(problems, Problem{Backend: key.Backend, Device: key.ID, Message: fmt.Sprintf(
			"no resource selects it (class %s), so no pod can get it: add a resource to profile %s, or have the backend leave it out by its settings",
			d.Class, v.Profile.Name)})
	}
	for _, backend := range slices.Sorted(maps.Keys(potential)) {
		problems = append(problems, Problem{Backend: backend, Message: fmt.Sprintf(
			"it can make %d devices for claims, but no resource with api: dra selects them: add one to profile %s", potential[backend], v.Profile.Name)})
	}
	return problems
}

// classProblems reports nothing as long as one of the backends that could have the class has
// not reported which it has.
func classProblems(profile *config.Profile, backends []*inventory.Backend) []Problem {
	known := map[string][]string{}
	for _, b := range backends {
		known[b.Name] = b.Description.Classes
	}
	var problems []Problem
	for _, r := range profile.Resources {
		var classes []string
		reported := r.Class != ""
		for _, b := range profile.Backends {
			if r.Backend == "" || r.Backend == b.Name {
				classes = append(classes, known[b.Name]...)
				reported = reported && len(known[b.Name]) > 0
			}
		}
		if !reported || slices.Contains(classes, r.Class) {
			continue
		}
		problems = append(problems, Problem{Resource: r.Name, Message: fmt.Sprintf(
			"no backend has devices of the class %s, so the resource stays empty%s; there are %s",
			r.Class, suggestion.DidYouMean(r.Class, classes), strings.Join(classes, ", "))})
	}
	return problems
}

// placeholderProblems reports nothing unless some device has an attribute of a similar name:
// many attributes exist only on some nodes, and then an empty resource is right.
func placeholderProblems(profile *config.Profile, backends []*inventory.Backend) []Problem {
	var problems []Problem
	for _, r := range profile.Resources {
		name, err := config.ParseName(r.Name)
		if err != nil {
			continue // it would not have been loaded
		}
		known := attributeNames(r, backends)
		for _, placeholder := range name.Placeholders() {
			if known[placeholder] || strings.Contains(placeholder, "/") {
				continue
			}
			meant := suggestion.DidYouMean(placeholder, slices.Sorted(maps.Keys(known)))
			if meant == "" {
				continue
			}
			problems = append(problems, Problem{Resource: r.Name, Message: fmt.Sprintf(
				"no device has the attribute %s, of which the name is made, so there is no such resource%s", placeholder, meant)})
		}
	}
	return problems
}

// attributeNames are those of the attributes that the devices have which may be the resource's.
func attributeNames(r config.Resource, backends []*inventory.Backend) map[string]bool {
	names := map[string]bool{}
	for _, b := range backends {
		if r.Backend != "" && r.Backend != b.Name {
			continue
		}
		for _, d := range b.Devices {
			if r.Class != "" && r.Class != d.Class {
				continue
			}
			for name := range d.Attributes.All() {
				names[name] = true
			}
		}
	}
	return names
}
