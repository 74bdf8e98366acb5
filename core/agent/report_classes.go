package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
)

// reportClasses adds the resources of the profile whose class no backend has, so that no
// device can ever be theirs.
func reportClasses(report *status.Report, v *view) {
	if v != nil && !v.plan.idle() {
		report.Problems = append(report.Problems, classProblems(v.plan.profile, v.snapshot.Backends)...)
	}
}

// classProblems are quiet as long as one of the backends that could have the class has
// not said which it has.
func classProblems(profile *config.Profile, backends []*inventory.Backend) []status.Problem {
	known := map[string][]string{}
	for _, b := range backends {
		known[b.Name] = b.Description.Classes
	}
	var problems []status.Problem
	for _, r := range profile.Resources {
		var classes []string
		told := r.Class != ""
		for _, b := range profile.Backends {
			if r.Backend == "" || r.Backend == b.Name {
				classes = append(classes, known[b.Name]...)
				told = told && len(known[b.Name]) > 0
			}
		}
		if !told || slices.Contains(classes, r.Class) {
			continue
		}
		problems = append(problems, status.Problem{Resource: r.Name, Message: fmt.Sprintf(
			"no backend has devices of the class %s, so the resource stays empty%s; there are %s",
			r.Class, config.DidYouMean(r.Class, classes), strings.Join(classes, ", "))})
	}
	return problems
}
