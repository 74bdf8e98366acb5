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
func (u *unit) crashed(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.crashes = append(u.recentCrashes(now), now)
}

// forgetCrashes clears the failures: the specification or the program has changed.
func (u *unit) forgetCrashes() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.crashes = nil
}

// recentCrashes returns the failures within the window. The caller holds u.mu.
func (u *unit) recentCrashes(now time.Time) []time.Time {
	old := func(at time.Time) bool { return now.Sub(at) > u.sup.timing.Window }
	return slices.DeleteFunc(slices.Clone(u.crashes), old)
}

// crashLoop returns the problem of a backend that fails again and again; "" if it does not.
// The caller holds u.mu.
func (u *unit) crashLoop(now time.Time) string {
	n := len(u.recentCrashes(now))
	if n < minCrashes {
		return ""
	}
	return fmt.Sprintf("it failed %d times within %s; the latest failure: %s", n, u.sup.timing.Window, u.public.LastError)
}
