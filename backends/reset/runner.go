package reset

import (
	"context"
	"fmt"
)

// Runner runs resets, one at a time. It is safe for concurrent use.
type Runner struct {
	// busy is full while a reset is in progress, also an abandoned one that does not end.
	busy chan struct{}
}

// NewRunner returns a runner. A process needs only one.
func NewRunner() *Runner { return &Runner{busy: make(chan struct{}, 1)} }

// Run runs a reset and returns its result: a message with what was done, or an error. When ctx
// ends, Run abandons the reset at once; no other begins before it has ended, since the kernel
// may hang in it whatever ctx is.
func (r *Runner) Run(ctx context.Context, reset func(context.Context) (done string, err error)) (string, error) {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("an earlier reset, or other change, has not come to its end: %w", ctx.Err())
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
		return "", fmt.Errorf("it has not come to its end, and was abandoned: %w", ctx.Err())
	}
}
