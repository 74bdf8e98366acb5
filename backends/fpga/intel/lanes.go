package intel

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// lanes run operations on boards, one at a time on each. The zero value is ready, and can be
// used concurrently.
type lanes struct {
	mu sync.Mutex
	// busy is full while an operation runs on the board.
	busy map[string]chan struct{}
}

var (
	// errNotBegun means that ctx ended before the operation began.
	errNotBegun = errors.New("it has not begun")
	// errOccupied means that it has not begun because an earlier one has not ended.
	errOccupied = errors.New("an earlier programming or reset of the card has not come to its end")
)

// run runs an operation on a board, and returns its result. If ctx ends before earlier ones have
// ended, the operation does not begin: the error is errNotBegun or errOccupied. Once begun it
// runs to its end, since ctx does not interrupt the kernel.
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
	defer func() { <-lane }()
	return work()
}
