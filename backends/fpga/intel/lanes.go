package intel

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// lanes run work on boards, one at a time on each. The zero value is ready, and can be
// used concurrently.
type lanes struct {
	mu sync.Mutex
	// busy is full for a board that is worked on, also by work that was abandoned and
	// does not end.
	busy map[string]chan struct{}
}

var (
	// errNotBegun means that there was no time for work.
	errNotBegun = errors.New("it has not begun")
	// errOccupied means that work has not begun, for earlier work has not ended.
	errOccupied = errors.New("an earlier programming or reset of the card has not come to its end")
	// errAbandoned means that work goes on, and nobody waits for it.
	errAbandoned = errors.New("it has not come to its end")
)

// run runs work on a board, and returns what it returns. When ctx ends the work is
// abandoned at once, for the kernel may be in it whatever ctx says, and no other begins
// on the board before it is over. Then the error is errNotBegun, errOccupied or
// errAbandoned.
func (l *lanes) run(ctx context.Context, board string, work func() (done string, err error)) (string, error) {
	l.mu.Lock()
	lane := l.busy[board]
	if lane == nil {
		if l.busy == nil {
			l.busy = map[string]chan struct{}{}
		}
		lane = make(chan struct{}, 1)
		l.busy[board] = lane
	}
	l.mu.Unlock()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%w: %w", errNotBegun, ctx.Err())
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", errOccupied, ctx.Err())
	}
	type result struct {
		done string
		err  error
	}
	results := make(chan result, 1)
	go func() {
		defer func() { <-lane }()
		done, err := work()
		results <- result{done, err}
	}()
	select {
	case got := <-results:
		return got.done, got.err
	case <-ctx.Done():
	}
	select {
	case got := <-results: // at the last moment
		return got.done, got.err
	default:
		return "", fmt.Errorf("%w: %w", errAbandoned, ctx.Err())
	}
}
