package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
)

// reportParameters adds what is wrong with the resources' parameters, as far as the
// backends that have devices of them say what they know: a container that gives a
// value to one that its backend does not know cannot start.
func reportParameters(report *status.Report, v *round.Round) {
	if v == nil {
		return
	}
	known := map[string][]inventory.Parameter{}
	for _, b := range v.Backends() {
		known[b.Name] = b.Description.Parameters
	}
	// Of a name with placeholders there may be many resources: one tells for all.
	var problems []status.Problem
	others := map[string]int{} // by problem, without the resource
	for _, r := range v.Table.Resources {
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
	for _, problem := range problems {
		key := problem
		key.Resource = ""
		if more := others[key.String()] - 1; more > 0 {
			problem.Message += fmt.Sprintf("; it is the same with %d more resources", more)
		}
		report.Problems = append(report.Problems, problem)
	}
}

// parameterProblems are those of one resource, without its name.
func parameterProblems(r *resource.Resource, known map[string][]inventory.Parameter) []status.Problem {
	devices, unprepared := map[string]bool{}, map[string]map[inventory.Key]bool{}
	for _, unit := range r.Units {
		key := unit.Device.Key
		devices[key.Backend] = true
		if !unit.Device.Hooks.Prepare {
			if unprepared[key.Backend] == nil {
				unprepared[key.Backend] = map[inventory.Key]bool{}
			}
			unprepared[key.Backend][key] = true
		}
	}
	var problems []status.Problem
	for _, backend := range slices.Sorted(maps.Keys(devices)) {
		parameters, ok := known[backend]
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
			if !slices.ContainsFunc(parameters, func(p inventory.Parameter) bool { return p.Name == name }) {
				problems = append(problems, status.Problem{Backend: backend, Message: unknownParameter(name, parameters) +
					": containers with a value for it do not start"})
			}
		}
		if n := len(unprepared[backend]); n > 0 {
			problems = append(problems, status.Problem{Backend: backend, Message: fmt.Sprintf(
				"the resource has parameters, but %d of its devices ask for no preparation, so the backend is not told of them: see its settings", n)})
		}
	}
	return problems
}
