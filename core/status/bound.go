package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxProblems is how many problems of each backend, and of none, a report has, and
	// maxProblemText how many bytes the text of one has.
	maxProblems    = 512
	maxProblemText = 2048
)

// Bound keeps the first problems of each backend, and says how many more there are, so that
// a report is one that its client reads, whatever a backend reports.
func Bound(problems []Problem) []Problem {
	count := map[string]int{}
	bounded := make([]Problem, 0, min(len(problems), maxProblems))
	for _, p := range problems {
		if count[p.Backend]++; count[p.Backend] > maxProblems {
			continue
		}
		if len(p.Message) > maxProblemText {
			p.Message = strings.ToValidUTF8(p.Message[:maxProblemText], "") + "..."
		}
		bounded = append(bounded, p)
	}
	for _, backend := range slices.Sorted(maps.Keys(count)) {
		if more := count[backend] - maxProblems; more > 0 {
			bounded = append(bounded, Problem{Backend: backend, Message: fmt.Sprintf("and %d more problems", more)})
		}
	}
	return bounded
}
