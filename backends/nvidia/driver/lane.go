package driver

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lane lets one call at a time into the driver: there is one lane for each GPU, and one
// for the system as a whole. A call that exceeds its time limit occupies the lane, one
// goroutine and its thread until it returns; meanwhile other calls fail at
// once.
//
//	free --call--> busy --return--> free
//	              busy --time is up--> late --return--> free
type lane struct {
	slot chan struct{}

	mu   sync.Mutex
	call uint64    // counts the calls
	late string    // the call that hangs; empty if none
	from time.Time // the start of that call
}

func newLane() *lane { return &lane{slot: make(chan struct{}, 1)} }

// run runs f in the lane and waits for its result no longer than limit. Then f goes on beside the caller:
// it may change the GPU, and its result is lost. So f must not write what the caller reads, but only
// return a value. The error is ErrNoAnswer, or that of ctx.
func run[T any](ctx context.Context, l *lane, limit time.Duration, what string, f func() T) (T, error) {
	var none T
	if err := l.hangs(); err != nil {
		return none, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case l.slot <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w", what, ctx.Err())
	case <-timer.C:
		return none, &CallError{Call: what, Reason: fmt.Errorf("%w within %v, another call is still busy", ErrNoAnswer, limit)}
	}
	l.mu.Lock()
	l.call++
	call, start := l.call, time.Now()
	l.mu.Unlock()
	result := make(chan T, 1)
	go func() {
		defer l.done()
		result <- f()
	}()
	select {
	case v := <-result:
		return v, nil
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w", what, ctx.Err())
	case <-timer.C:
	}
	if l.overran(call, what, start) {
		return none, &CallError{Call: what, Reason: fmt.Errorf("%w within %v", ErrNoAnswer, limit)}
	}
	return <-result, nil // the call returned just before the limit
}

// done frees the lane. It increments the call counter, so that overran does not mark a
// call that has returned.
func (l *lane) done() {
	l.mu.Lock()
	l.call++
	l.late = ""
	l.mu.Unlock()
	<-l.slot
}

// overran marks a call as late, unless it has returned.
func (l *lane) overran(call uint64, what string, start time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call != call {
		return false
	}
	l.late, l.from = what, start
	return true
}

// hangs returns an error if a call is late.
func (l *lane) hangs() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == "" {
		return nil
	}
	return &CallError{Call: l.late, Reason: fmt.Errorf("%w since %s: a call hangs in the driver; if it stays so, reboot the node", ErrNoAnswer,
		l.from.UTC().Format(time.RFC3339))}
}

// drain waits until no call is in the lane, and then occupies it; open frees it
// again.
func (l *lane) drain(ctx context.Context) error {
	select {
	case l.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		if err := l.hangs(); err != nil {
			return err
		}
		return ctx.Err()
	}
}

func (l *lane) open() { <-l.slot }
