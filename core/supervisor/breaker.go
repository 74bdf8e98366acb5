package supervisor

import "time"

// breaker counts the failures of one backend and says how long to wait. It is
// not safe for concurrent use.
//
//	closed ──Failures in Window──► open ──Quarantine──► half-open ──stable run──► closed
//	                                 ▲                      │
//	                                 └──failure, doubled────┘
type breaker struct {
	timing *Timing
	// failures are the times of those in the window; a grave one is in it twice
	// or more.
	failures []time.Time
	// streak is how many failures came without a stable run in between.
	streak int
	// trips is how often the breaker opened without a stable run in between.
	trips int
}

// fail counts a failure of the given weight and returns the pause before the
// next try, and whether that is a quarantine.
func (b *breaker) fail(now time.Time, weight int) (pause time.Duration, quarantined bool) {
	for range weight {
		b.failures = append(b.failures, now)
	}
	b.streak++
	old := 0
	for old < len(b.failures) && now.Sub(b.failures[old]) > b.timing.Window {
		old++
	}
	b.failures = b.failures[old:]
	if b.trips > 0 || len(b.failures) >= b.timing.Failures {
		b.trips++
		b.failures = nil
		return b.timing.spread(doubled(b.timing.Quarantine, b.trips-1, b.timing.QuarantineLimit)), true
	}
	return b.timing.spread(doubled(b.timing.Backoff, b.streak-1, b.timing.BackoffLimit)), false
}

// grave is the weight that makes the second failure open the breaker.
func (b *breaker) grave() int { return (b.timing.Failures + 1) / 2 }

// reset forgets every failure.
func (b *breaker) reset() { b.failures, b.streak, b.trips = nil, 0, 0 }

// doubled is d doubled n times, at most limit.
func doubled(d time.Duration, n int, limit time.Duration) time.Duration {
	for range n {
		if d >= limit {
			break
		}
		d *= 2
	}
	return min(d, limit)
}
