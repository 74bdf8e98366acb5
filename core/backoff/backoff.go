// Package backoff has the one shape of pauses between tries: each doubles the one
// before it, up to a limit, and up to a half of it is added at random, so that the
// agents of a cluster do not try in step. It is a thin use of
// k8s.io/apimachinery/pkg/util/wait.
package backoff

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// steps are enough to double any pause up to any limit.
	steps = 64
	// jitter is the random part, as a share of the pause.
	jitter = 0.5
)

// New returns pauses of first, twice first and so on up to limit, each with jitter.
// Step returns the next one; it is not safe for concurrent use. After a success, a new
// value begins at first again.
func New(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Cap: limit, Factor: 2, Jitter: jitter, Steps: steps}
}

// After returns the pause after so many failures in a row, with jitter: first after one
// failure, and at most limit and its jitter.
func After(failures int, first, limit time.Duration) time.Duration {
	return Jitter(Base(failures, first, limit))
}

// Base is After without jitter.
func Base(failures int, first, limit time.Duration) time.Duration {
	pauses := wait.Backoff{Duration: first, Cap: limit, Factor: 2, Steps: steps}
	pause := pauses.Step()
	for range min(failures, steps) - 1 {
		pause = pauses.Step()
	}
	return min(pause, limit)
}

// Jitter adds up to a half of a pause to it.
func Jitter(pause time.Duration) time.Duration { return wait.Jitter(pause, jitter) }

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
