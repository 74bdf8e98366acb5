package holders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
)

// Run asks kubelet at intervals, keeps the file up to date and sends what Ended
// returns until ctx ends. It returns nil. Only one Run may be going on.
func (b *Book) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { b.write(ctx) })
	running.Go(func() { b.send(ctx) })
	b.follow(ctx)
	running.Wait()
	return nil
}

// Close writes what is not on disk yet. Call it after Run has returned. The file may be
// another agent's then, so that nothing writes it again.
func (b *Book) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.save()
}

// follow asks kubelet until ctx ends.
func (b *Book) follow(ctx context.Context) {
	failures := 0
	for {
		pause := b.opts.Interval
		var starting *startingError
		if err := b.poll(ctx); err == nil {
			failures = 0
		} else if errors.As(err, &starting) {
			pause = starting.left
		} else if ctx.Err() == nil {
			pause = b.backOff(failures)
			failures++
			b.log.Debug("list pod resources", "error", err, "retry", pause)
		}
		// At a distance from the last call, even if somebody cannot wait.
		if !wait(ctx, nil, b.opts.Timing.Spacing) || !b.idle(ctx, max(pause-b.opts.Timing.Spacing, 0)) {
			return
		}
	}
}

// idle waits until kubelet is to be asked again; false if ctx ended.
func (b *Book) idle(ctx context.Context, pause time.Duration) bool {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-b.refresh:
			return true
		case <-next.C:
			return true
		case <-b.soon:
			// Further allocations do not push it back.
			if look := b.opts.Timing.Look; look < pause {
				return wait(ctx, b.refresh, look)
			}
		}
	}
}

// fresh is a list that began after the call, taken into the book. Of several that
// ask at the same time most share one: kubelet serves 100 calls a second at most.
func (b *Book) fresh(ctx context.Context) (listing, error) {
	asked := b.opts.Now()
	b.waiting.Add(1)
	select {
	case b.asking <- struct{}{}:
	case <-ctx.Done():
		b.waiting.Add(-1)
		return listing{}, fmt.Errorf("list pod resources: %w", context.Cause(ctx))
	}
	defer func() {
		if b.waiting.Add(-1) == 0 {
			b.latest = nil // nobody is left to share it; if the last gave up, the next poll ends so
		}
		<-b.asking
	}()
	if l := b.latest; l != nil && !l.began.Before(asked) {
		return *l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timing.Timeout)
	defer cancel()
	l, err := b.lister.list(ctx, b.opts.Now)
	if err != nil {
		b.latest = nil
		return listing{}, err
	}
	b.apply(l)
	b.endUnseen(l)
	b.latest = &l
	return l, nil
}

// poll asks kubelet once and takes in the answer.
func (b *Book) poll(ctx context.Context) error {
	_, err := b.fresh(ctx)
	var starting *startingError
	if errors.As(err, &starting) {
		return err // no trouble
	}
	if err != nil {
		b.note("kubelet", fmt.Sprintf("usage: %v; devices that are allocated stay held until it answers", err))
		return err
	}
	b.note("kubelet", "")
	return nil
}

// send sends what has ended until ctx ends.
func (b *Book) send(ctx context.Context) {
	for {
		if all := b.unsent(); len(all) > 0 {
			select {
			case b.endings <- all:
			case <-ctx.Done():
				return // the next run sends them again
			}
			continue
		}
		select {
		case <-b.ended:
		case <-ctx.Done():
			return
		}
	}
}

// write keeps the file up to date until ctx ends.
func (b *Book) write(ctx context.Context) {
	failures := 0
	for {
		if !wait(ctx, b.dirty, -1) {
			return // Close writes the rest
		}
		for b.save() != nil {
			if !wait(ctx, nil, b.backOff(failures)) {
				return
			}
			failures++
		}
		failures = 0
		if !wait(ctx, nil, b.opts.Timing.Write) {
			return
		}
	}
}

func (b *Book) backOff(failures int) time.Duration {
	return backoff.After(failures+1, b.opts.Timing.RetryMin, b.opts.Timing.RetryMax)
}

// wait waits for a signal or until the pause is over; a negative one never is.
// It returns false if ctx ended.
func wait(ctx context.Context, signal <-chan struct{}, pause time.Duration) bool {
	var over <-chan time.Time
	if pause >= 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-signal:
	case <-over:
	}
	return ctx.Err() == nil
}
