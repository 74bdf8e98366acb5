package dra

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/lifecycle"
)

// slowLimit is how long a claim with a device that is slow to prepare may take. The scheduler, where it waits for
// that, gives up after 10 min by default (bindingTimeout of its plugin DynamicResources).
const slowLimit = 9 * time.Minute

// preparation is one of a claim with a device that is slow to prepare. Kubelet does not wait for it: it gives up
// after 45 s, and has no other claim of the driver prepared meanwhile.
//
//	the binder, before the pod is bound ──► prepared while the binder waits
//	kubelet calls, and it is not prepared ──► begun, unless it is in progress
//	  prepared, or failed ──► the answer, if that takes 2 s at most, or that to kubelet's next call
//	kubelet calls to unprepare ──► one that kubelet called for is cancelled
type preparation struct {
	since time.Time
	// unbound: kubelet has not called for it.
	unbound bool
	cancel  context.CancelCauseFunc
	// ended is whether it has ended, and err why it failed: kubelet's next call gets that. done is closed then.
	ended bool
	err   error
	done  chan struct{}
}

// slowAnswer is how long kubelet waits for a device that is slow to prepare: most that fail do so at once.
const slowAnswer = 2 * time.Second

// errSlow: the claim is to be prepared without having kubelet wait.
var errSlow = errors.New("slow to prepare")

// errUnprepared ends a preparation.
var errUnprepared = errors.New("kubelet called to unprepare it")

// prepareForKubelet prepares a claim, or returns that this is in progress, or why the last attempt failed.
func (d *Driver) prepareForKubelet(ctx context.Context, c *resourceapi.ResourceClaim) (*holders.ClaimRecord, error) {
	if err := d.progress(c.UID); err != nil {
		return nil, err
	}
	prepared, err := d.prepare(ctx, c, false, 0)
	if !errors.Is(err, errSlow) {
		return prepared, err
	}
	select {
	case <-d.beginForKubelet(c):
	case <-time.After(d.slowAnswer):
	case <-ctx.Done():
	}
	if err := d.progress(c.UID); err != nil {
		return nil, err
	}
	return d.prepare(ctx, c, false, 0)
}

// beginForKubelet begins a preparation, unless one is in progress. It returns a channel that is closed at its end.
func (d *Driver) beginForKubelet(c *resourceapi.ResourceClaim) (done <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.preparing[c.UID]; p != nil {
		return p.done
	}
	ctx, p := d.begin(d.running, c.UID, false)
	d.background.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, slowLimit, fmt.Errorf("the preparation took longer than %s", slowLimit))
		defer cancel()
		_, err := d.prepare(ctx, c, false, slowLimit)
		p.cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		defer close(p.done)
		if p.ended, p.err = true, err; context.Cause(ctx) == errUnprepared { //nolint:errorlint // it is not wrapped
			delete(d.preparing, c.UID)
		}
	})
	return p.done
}

// prepareUnbound prepares a claim before its pod is bound to the node.
func (d *Driver) prepareUnbound(ctx context.Context, c *resourceapi.ResourceClaim, deadline time.Time) error {
	d.mu.Lock()
	if p := d.preparing[c.UID]; p != nil && !p.ended {
		d.mu.Unlock()
		return p.inProgress()
	}
	ctx, p := d.begin(ctx, c.UID, true)
	d.mu.Unlock()
	_, err := d.prepare(ctx, c, true, max(time.Until(deadline), time.Second))
	p.cancel(nil)
	close(p.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.preparing, c.UID)
	return err
}

// begin records a preparation. The caller holds d.mu.
func (d *Driver) begin(ctx context.Context, u types.UID, unbound bool) (context.Context, *preparation) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &preparation{since: time.Now(), unbound: unbound, cancel: cancel, done: make(chan struct{})}
	d.preparing[u] = p
	return ctx, p
}

// progress returns what kubelet is to know of a claim's preparation: that it is in progress, or why it failed; nil
// if neither.
func (d *Driver) progress(u types.UID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.preparing[u]
	switch {
	case p == nil:
		return nil
	case !p.ended:
		return p.inProgress()
	}
	delete(d.preparing, u)
	return p.err
}

func (p *preparation) inProgress() error {
	return lifecycle.TemporaryError{Err: fmt.Errorf("a device is slow to prepare, and has been in preparation since %s: the start is tried again", p.since.Format(time.TimeOnly))}
}

// abandon cancels the preparation of a claim, and reports whether kubelet may have something to unprepare: not if the
// claim is prepared before its pod is bound and the record has nothing that kubelet had, as then kubelet means an
// earlier allocation, which has ended.
func (d *Driver) abandon(u types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.preparing[u]
	if p == nil {
		return true
	}
	if p.unbound {
		c := d.opts.Record.Get(d.opts.Name, u)
		return c != nil && !c.Unbound
	}
	p.cancel(errUnprepared)
	if p.ended {
		delete(d.preparing, u)
	}
	return true
}
