package status

import (
	"fmt"
	"strings"
	"testing"
)

// Verifies that a backend with very many problems has few and short ones in a report, with
// how many more there are, and that others keep theirs.
func TestBound(t *testing.T) {
	all := []Problem{{Message: "the disk is full"}}
	for i := range 3 * maxProblems {
		all = append(all, Problem{Backend: "many", Device: fmt.Sprint("d", i), Message: strings.Repeat("x", 10_000)})
	}
	all = append(all, Problem{Backend: "other", Message: "it hangs"})
	got := bound(all)
	if len(got) != maxProblems+3 || got[0].Message != all[0].Message || got[maxProblems+1].Message != "it hangs" {
		t.Fatalf("%d problems: %v ... %v", len(got), got[0], got[len(got)-2:])
	}
	if last := got[len(got)-1]; last.Backend != "many" || last.Message != fmt.Sprintf("and %d more problems", 2*maxProblems) {
		t.Errorf("the last is %+v", last)
	}
	if n := len(got[1].Message); n > maxProblemText+3 {
		t.Errorf("a text has %d bytes", n)
	}
	if got := bound(nil); got == nil || len(got) != 0 {
		t.Errorf("none gives %v, want an empty list", got)
	}
}
