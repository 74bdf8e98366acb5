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
	// busy is full for a board that is worked on.
	busy map[string]chan struct{}
}

var (
	// errNotBegun means that there was no time for work.
	errNotBegun = errors.New("it has not begun")
	// errOccupied means that work has not begun, for earlier work has not ended.
	errOccupied = errors.New("an earlier programming or reset of the card has not come to its end")
)

// run runs work on a board, and returns what it returns. When ctx ends before there is
// room for it, it is not begun: the error is errNotBegun or errOccupied. What has begun
// is run to its end, for the kernel may be in it whatever ctx says.
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
