package supervisor

import (
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
)

// stableRun is how long a process must have run for the pauses to begin at Timing.Backoff
// again.
const stableRun = 2 * time.Minute

// minCrashes is how many failures within Timing.Window are a problem, even while the
// backend runs again.
const minCrashes = 2

// breaker counts the failures of one backend and decides how long to wait after each. It is
// safe for concurrent use.
//
//	closed ──Failures in Window──► open ──Quarantine──► half-open ──stable run──► closed
//	                                 ▲                      │
//	                                 └──failure, doubled────┘
type breaker struct {
	timing *Timing

	mu sync.Mutex
	// failures are those within Timing.Window.
	failures []weighted
	// streak is the number of failures without a stable run in between.
	streak int
	// trips is how often the breaker opened without a stable run in between.
	trips int
}

// weighted is a failure that counts as several.
type weighted struct {
	at     time.Time
	weight int
}

// fail counts a failure and returns the pause before the next try, without jitter, and
// whether that is a quarantine.
func (b *breaker) fail(now time.Time, weight int) (pause time.Duration, quarantined bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.within(now), weighted{now, weight})
	b.streak++
	total := 0
	for _, f := range b.failures {
		total += f.weight
	}
	if b.trips > 0 || total >= b.timing.Failures {
		b.trips++
		return backoff.Base(b.trips, b.timing.Quarantine, b.timing.QuarantineLimit), true
	}
	return backoff.Base(b.streak, b.timing.Backoff, b.timing.BackoffLimit), false
}

// within returns the failures of the window. The caller holds the mutex.
func (b *breaker) within(now time.Time) []weighted {
	return slices.DeleteFunc(slices.Clone(b.failures), func(f weighted) bool { return now.Sub(f.at) > b.timing.Window })
}

// recent is the number of failures within the window.
func (b *breaker) recent(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.within(now))
}

// grave is the weight with which the second failure opens the breaker.
func (b *breaker) grave() int { return (b.timing.Failures + 1) / 2 }

// stable records that a process ran for stableRun: the next pause is the first one again.
func (b *breaker) stable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trips > 0 {
		b.failures = nil
	}
	b.streak, b.trips = 0, 0
}

// reset forgets every failure: the specification or the program has changed.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.streak, b.trips = nil, 0, 0
}
