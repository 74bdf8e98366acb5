package holders

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// poller lists kubelet's pods.
type poller struct {
	lister lister
	// soon: list when kubelet has had the time to record an allocation.
	soon chan struct{}
	// listing is held by the one List call. It guards latest, which is shared with waiting
	// callers. waiting counts the callers that list or wait.
	listing chan struct{} // 1 slot
	latest  *listing
	waiting atomic.Int32
}

func newPoller(l lister) *poller {
	return &poller{lister: l, soon: make(chan struct{}, 1), listing: make(chan struct{}, 1)}
}

// follow lists kubelet's pods until ctx ends.
func (b *Book) follow(ctx context.Context) {
	failures := 0
	for {
		pause := b.opts.Interval
		var starting *startingError
		if err := b.pollOnce(ctx); err == nil {
			failures = 0
		} else if errors.As(err, &starting) {
			pause = starting.left
		} else if ctx.Err() == nil {
			pause = b.backOff(failures)
			failures++
			b.log.Debug("list pod resources", "error", err, "retry", pause)
		}
		// At a distance from the last call, even if one is wanted soon.
		if !wait(ctx, nil, b.opts.Timing.Spacing) || !b.idle(ctx, max(pause-b.opts.Timing.Spacing, 0)) {
			return
		}
	}
}

// idle waits until the next list is due; false if ctx ended.
func (b *Book) idle(ctx context.Context, pause time.Duration) bool {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
			return true
		case <-b.poller.soon:
			// Further allocations do not delay it.
			if confirm := b.opts.Timing.Confirm; confirm < pause {
				return wait(ctx, nil, confirm)
			}
		}
	}
}

// fresh returns a list that began after the call, and applies it to the book. Of several
// callers at the same time most share one: kubelet serves 100 calls a second at most.
func (b *Book) fresh(ctx context.Context) (listing, error) {
	p, called := b.poller, b.opts.Now()
	p.waiting.Add(1)
	select {
	case p.listing <- struct{}{}:
	case <-ctx.Done():
		p.waiting.Add(-1)
		return listing{}, fmt.Errorf("list pod resources: %w", context.Cause(ctx))
	}
	defer func() {
		if p.waiting.Add(-1) == 0 {
			p.latest = nil // no caller is left to share it
		}
		<-p.listing
	}()
	if l := p.latest; l != nil && !l.began.Before(called) {
		return *l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timing.Timeout)
	defer cancel()
	l, err := p.lister.list(ctx, b.opts.Now)
	if err != nil {
		p.latest = nil
		return listing{}, err
	}
	listed := l.units()
	b.apply(l, listed)
	b.endUnseen(l, listed)
	p.latest = &l
	return l, nil
}

// pollOnce lists kubelet's pods once.
func (b *Book) pollOnce(ctx context.Context) error {
	_, err := b.fresh(ctx)
	var starting *startingError
	if errors.As(err, &starting) {
		return err // not a problem
	}
	if err != nil {
		b.note("kubelet", fmt.Sprintf("holders: %v; allocated devices stay allocated until kubelet answers", err))
		return err
	}
	b.note("kubelet", "")
	return nil
}
