package sdk

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// answerTime is reserved of a call's deadline, so that the answer arrives in time.
const answerTime = 2 * time.Second

// Asks are functions of calls for a loop that owns the state of the devices. The loop receives
// the functions and runs them between two of its rounds: they must be quick, and return copies.
type Asks[L any] chan func(L)

// InLoop has the loop run f, waits, and returns its result. It fails if ctx ends before the loop
// runs f.
func InLoop[L, T any](ctx context.Context, asks Asks[L], f func(L) T) (T, error) {
	result := make(chan T, 1)
	var none T
	select {
	case asks <- func(l L) { result <- f(l) }:
	case <-ctx.Done():
		return none, fmt.Errorf("wait for the loop that monitors the devices: %w", ctx.Err())
	}
	return <-result, nil
}

// InTime returns a context that ends 2 s before the deadline of a call, or halfway if less
// than 4 s are left, so that the answer arrives in time.
func InTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerTime, time.Until(deadline)/2)))
}

var numbers = regexp.MustCompile(`^(\d+)(?:\.(\d+))?(?:\.(\d+))?`)

// Semantic converts a driver's version to a semantic version, for [Version]: 570.124.06 becomes
// 570.124.6, 12.8 becomes 12.8.0. It returns "" for a text that does not begin with a number.
func Semantic(version string) string {
	parts := numbers.FindStringSubmatch(version)
	if parts == nil {
		return ""
	}
	clean := make([]string, 3)
	for i, part := range parts[1:] {
		clean[i] = strings.TrimLeft(part, "0")
		if clean[i] == "" {
			clean[i] = "0"
		}
	}
	return strings.Join(clean, ".")
}
