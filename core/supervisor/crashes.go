package supervisor

import (
	"fmt"
	"slices"
	"time"
)

// minCrashes is how many failures within Timing.Window are a problem, even while the
// backend runs again.
const minCrashes = 2

// crashed records a failure.
func (b *backend) crashed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.crashes = append(b.recentCrashes(now), now)
}

// forgetCrashes clears the failures: the specification or the program has changed.
func (b *backend) forgetCrashes() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.crashes = nil
}

// recentCrashes returns the failures within the window. The caller holds b.mu.
func (b *backend) recentCrashes(now time.Time) []time.Time {
	old := func(at time.Time) bool { return now.Sub(at) > b.sup.timing.Window }
	return slices.DeleteFunc(slices.Clone(b.crashes), old)
}

// crashLoop returns the problem of a backend that fails again and again; "" if it does not.
// The caller holds b.mu.
func (b *backend) crashLoop(now time.Time) string {
	n := len(b.recentCrashes(now))
	if n < minCrashes {
		return ""
	}
	return fmt.Sprintf("it failed %d times within %s; the latest failure: %s", n, b.sup.timing.Window, b.public.LastError)
}
