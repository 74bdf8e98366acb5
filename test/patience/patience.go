package patience

import (
	"testing"
	"time"
)

// Long bounds what takes a small part of it on a machine that has time: nothing takes so
// long by itself.
const Long = time.Minute

const (
	// often and seldom are the pauses between the first looks and between later ones.
	often, seldom = time.Millisecond, 10 * time.Millisecond
	// looks is how many a condition is given at least, whatever the clock says.
	looks = 20
)

// Limit is what is left of a limit of time in which somebody looks again and again: from one
// look to the next a twentieth of it counts at most.
type Limit struct {
	left, most time.Duration
	before     time.Time
}

// NewLimit begins one.
func NewLimit(limit time.Duration) *Limit { return &Limit{limit, limit / looks, time.Now()} }

// Over is asked once between two looks, and reports whether the next one is the last.
func (l *Limit) Over() bool {
	now := time.Now()
	l.left -= min(now.Sub(l.before), l.most)
	l.before = now
	return l.left <= 0
}

// Within looks at the condition until it holds, every 10 ms at last, and reports whether it
// did within the [Limit].
func Within(limit time.Duration, condition func() bool) bool {
	left, pause := NewLimit(limit), often
	for !condition() {
		<-time.After(pause)
		if pause = min(pause+often, seldom); left.Over() {
			return condition()
		}
	}
	return true
}

// Until is Within a [Long] time, or the end of the test: what says what did not happen.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	if !Within(Long, condition) {
		tb.Fatalf("%s: not within %v", what, Long)
	}
}
