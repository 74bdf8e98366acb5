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

// Within looks at the condition until it holds, every 10 ms at last, and reports whether it
// did within the limit. From one look to the next a twentieth of the limit counts at most.
func Within(limit time.Duration, condition func() bool) bool {
	most, pause := limit/looks, often
	for before := time.Now(); !condition(); {
		<-time.After(pause)
		pause = min(pause+often, seldom)
		now := time.Now()
		limit -= min(now.Sub(before), most)
		if before = now; limit <= 0 {
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
