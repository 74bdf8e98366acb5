package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/core/text"
)

// maxReasons bounds the reasons of a failed rule, and maxReason the bytes of one.
const (
	maxReasons = 3
	maxReason  = 512
)

// verdicts collects the verdicts on the rules. A failure replaces any other outcome, and a pass
// replaces "not applicable". Safe for concurrent use.
type verdicts struct {
	// over reports whether the check was cancelled: later failures do not count.
	over func() bool

	mu    sync.Mutex
	rules map[string]*verdict
}

type verdict struct {
	outcome Outcome
	reasons []string
	more    int
}

func (v *verdicts) set(rule string, outcome Outcome, reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rules == nil {
		v.rules = map[string]*verdict{}
	}
	rank := []Outcome{"", NotApplicable, Pass, Fail}
	known := v.rules[rule]
	switch {
	case known == nil || slices.Index(rank, outcome) > slices.Index(rank, known.outcome):
		known = &verdict{outcome: outcome}
		v.rules[rule] = known
	case outcome != known.outcome:
		return
	}
	reason = text.Printable(reason, maxReason)
	switch {
	case reason == "" || slices.Contains(known.reasons, reason):
	case len(known.reasons) == maxReasons:
		known.more++
	default:
		known.reasons = append(known.reasons, reason)
	}
}

// remark passes a rule, with what was seen that may be wrong.
func (v *verdicts) remark(rule, remark string) { v.set(rule, Pass, remark) }

func (v *verdicts) pass(rules ...string) {
	for _, rule := range rules {
		v.set(rule, Pass, "")
	}
}

func (v *verdicts) fail(rule, format string, args ...any) {
	if v.over() {
		return
	}
	v.set(rule, Fail, fmt.Sprintf(format, args...))
}

// judge passes the rule if err is nil, and fails it with the error.
func (v *verdicts) judge(rule string, err error) {
	if err != nil {
		v.fail(rule, "%s", err)
		return
	}
	v.pass(rule)
}

// failed reports whether a rule has failed so far.
func (v *verdicts) failed(rule string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rules[rule] != nil && v.rules[rule].outcome == Fail
}

// skip marks rules as not applicable, for one reason.
func (v *verdicts) skip(reason string, rules ...string) {
	for _, rule := range rules {
		v.set(rule, NotApplicable, reason)
	}
}

// results returns the results of all rules; rest is the reason for rules without a verdict.
func (v *verdicts) results(rest string) []Result {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []Result
	for _, rule := range rules {
		known := v.rules[rule.ID]
		if known == nil {
			known = &verdict{outcome: NotApplicable, reasons: []string{rest}}
		}
		why := strings.Join(known.reasons, "; ")
		if known.more > 0 {
			why += fmt.Sprintf("; and %d more", known.more)
		}
		all = append(all, Result{Rule: rule, Outcome: known.outcome, Why: why})
	}
	return all
}
