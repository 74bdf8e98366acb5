package status

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// parameterProblems are those of the resources' parameters, as far as the backends that have
// devices of them describe theirs: a container with a value for a parameter that its backend
// does not have cannot start.
func (f Facts) parameterProblems() []Problem {
	known := map[string][]inventory.Parameter{}
	for _, b := range f.Round.Backends() {
		known[b.Name] = b.Description.Parameters
	}
	var problems []Problem
	// A name with placeholders may make many resources: one stands for all.
	others := map[string]int{} // by problem, without the resource
	for _, r := range f.Round.Resources() {
		if len(r.Parameters) == 0 {
			continue
		}
		for _, problem := range parameterProblems(r, known) {
			key := problem.String()
			if others[key]++; others[key] == 1 {
				problem.Resource = r.Name
				problems = append(problems, problem)
			}
		}
	}
	for i, problem := range problems {
		key := problem
		key.Resource = ""
		if more := others[key.String()] - 1; more > 0 {
			problems[i].Message += fmt.Sprintf("; it is the same with %d more resources", more)
		}
	}
	return problems
}

// parameterProblems are those of one resource, without its name.
func parameterProblems(r *resource.Resource, known map[string][]inventory.Parameter) []Problem {
	devices, unprepared := map[string]bool{}, map[string]int{}
	for _, d := range r.Devices {
		devices[d.Backend] = true
		if !d.Hooks.Prepare {
			unprepared[d.Backend]++
		}
	}
	var problems []Problem
	for _, backend := range slices.Sorted(maps.Keys(devices)) {
		parameters, ok := known[backend]
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
			if !slices.ContainsFunc(parameters, func(p inventory.Parameter) bool { return p.Name == name }) {
				problems = append(problems, Problem{Backend: backend, Message: inventory.UnknownParameter(name, parameters) +
					": containers with a value for it do not start"})
			}
		}
		if n := unprepared[backend]; n > 0 {
			problems = append(problems, Problem{Backend: backend, Message: fmt.Sprintf(
				"the resource has parameters, but %d of its devices ask for no preparation, so the backend does not get them: see its settings", n)})
		}
	}
	return problems
}
