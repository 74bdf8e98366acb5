package sdk

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// answerTime is kept back of a call's deadline, so that the answer still counts.
const answerTime = 2 * time.Second

// Asks are what calls want of a loop that owns all that is known of the devices. The
// loop receives functions from it and runs them between two of its rounds: they must
// be quick, and take away copies.
type Asks[L any] chan func(L)

// InLoop has the loop run f and waits for what it gives. It fails if ctx ends before
// the loop begins with it.
func InLoop[L, T any](ctx context.Context, asks Asks[L], f func(L) T) (T, error) {
	result := make(chan T, 1)
	var none T
	select {
	case asks <- func(l L) { result <- f(l) }:
	case <-ctx.Done():
		return none, fmt.Errorf("ask the loop that looks after the devices: %w", ctx.Err())
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

// Semantic makes a semantic version, for [Version], of one that a driver writes:
// 570.124.06 is 570.124.6, 12.8 is 12.8.0. It is empty for a text that does not begin
// with a number.
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
