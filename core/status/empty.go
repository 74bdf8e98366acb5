package status

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// unknownProblems are those of names in the profile that no backend has.
func (f Facts) unknownProblems() (problems []Problem) {
	plan := f.Profile.InForce
	if plan == nil || f.Round.Idle() {
		return nil
	}
	for _, u := range plan.References.Unknown(f.Round.Backends()) {
		problems = append(problems, Problem{Resource: u.Resource, Backend: u.Backend, Message: u.Message + " (" + plan.Place(u.Field) + ")"})
	}
	return problems
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
