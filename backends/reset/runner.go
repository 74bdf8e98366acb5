package reset

import (
	"context"
	"fmt"
)

// Runner runs resets, one at a time. It is safe for concurrent use.
type Runner struct {
	// busy is full while a reset is on its way, also one that was abandoned and
	// does not end.
	busy chan struct{}
}

// NewRunner is a runner; a process has one.
func NewRunner() *Runner { return &Runner{busy: make(chan struct{}, 1)} }

// Run runs a reset and returns what it returns: in words what was done, or why not.
// When ctx ends the reset is abandoned at once, and no other begins before it is over:
// the kernel may hang in it, whatever ctx says.
func (r *Runner) Run(ctx context.Context, reset func(context.Context) (done string, err error)) (string, error) {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("an earlier reset has not come to its end: %w", ctx.Err())
	}
	type result struct {
		done string
		err  error
	}
	results := make(chan result, 1)
	go func() {
		defer func() { <-r.busy }()
		done, err := reset(ctx)
		results <- result{done, err}
	}()
	select {
	case got := <-results:
		return got.done, got.err
	case <-ctx.Done():
		return "", fmt.Errorf("the reset has not come to its end, and was abandoned: %w", ctx.Err())
	}
}
