package holders

import (
	"context"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
)

// Run keeps the file up to date and sends what Ended
// returns until ctx ends. It returns nil. Only one Run may be in progress.
func (b *Book) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { b.write(ctx) })
	running.Go(func() { b.send(ctx) })
	running.Wait()
	return nil
}

// Close writes what is not on disk yet. Call it after Run has returned. The file may be
// another agent's then, so that it is not written again.
func (b *Book) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.save()
}

// send sends the devices of holders that ended until ctx ends.
func (b *Book) send(ctx context.Context) {
	for {
		if all := b.unsent(); len(all) > 0 {
			select {
			case b.ended.out <- all:
			case <-ctx.Done():
				return // the next run sends them again
			}
			continue
		}
		select {
		case <-b.ended.added:
		case <-ctx.Done():
			return
		}
	}
}

// write writes the file when it is outdated, until ctx ends.
func (b *Book) write(ctx context.Context) {
	failures := 0
	for {
		if !wait(ctx, b.file.outdated, -1) {
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

// wait waits for a signal or until the pause has passed; a negative one does not pass. It returns
// false if ctx ended.
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
