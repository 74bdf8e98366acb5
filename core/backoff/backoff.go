// Package backoff has the one shape of pauses between tries: each doubles the one
// before it, up to a limit, and a random half is added, so that the agents of a
// cluster do not try in step. The pauses are those of
// k8s.io/apimachinery/pkg/util/wait.
package backoff

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// steps are enough to double any pause up to any limit.
const steps = 64

// New returns pauses of first, twice first and so on up to limit, each plus up to a
// half of itself. Step returns the next one; it is not safe for concurrent use. After
// a success, a new value begins at first again.
func New(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Cap: limit, Factor: 2, Jitter: 0.5, Steps: steps}
}

// After returns the pause after so many failures in a row; with none, or one, it is
// that of the first.
func After(failures int, first, limit time.Duration) time.Duration {
	pauses := New(first, limit)
	pause := pauses.Step()
	for range min(failures, steps) - 1 {
		pause = pauses.Step()
	}
	return pause
}

// Sleep waits for that long, and returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
