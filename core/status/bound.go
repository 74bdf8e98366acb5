package status

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxProblems bounds the problems of each backend, and those of none, in a report;
	// maxProblemText bounds the text of a problem, in bytes.
	maxProblems    = 512
	maxProblemText = 2048
)

// bound keeps the first problems of each backend and adds how many more there are, so that
// clients can read a report of any backend.
func bound(problems []Problem) []Problem {
	count := map[string]int{}
	bounded := make([]Problem, 0, min(len(problems), maxProblems))
	for _, p := range problems {
		if count[p.Backend]++; count[p.Backend] > maxProblems {
			continue
		}
		p.Message = text.Shorten(p.Message, maxProblemText)
		bounded = append(bounded, p)
	}
	for _, backend := range slices.Sorted(maps.Keys(count)) {
		if more := count[backend] - maxProblems; more > 0 {
			bounded = append(bounded, Problem{Backend: backend, Message: fmt.Sprintf("and %d more problems", more)})
		}
	}
	return bounded
}
