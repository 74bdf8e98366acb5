package nvidia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// All that is known of the GPUs belongs to the loop. A call that needs it has the
// loop run a function between two of its rounds: it must be quick, and take away
// copies.
//
//	sdk.InLoop  loop runs f between two rounds
//	keep        loop begins no look more, waits for the one on its way: the driver
//	            is the caller's, which may close it
//	giveBack    loop looks, judges, publishes, and says what it found
//	lookNow     so it does at once, without having lent the driver

// hold keeps the loop from the driver.
type hold struct {
	driver *driver.Driver
	// granted is closed when no look uses the driver, over when one has opened it
	// again, or has tried to.
	granted, over chan struct{}
}

// keep takes the driver from the loop. It waits for a look that is on its way.
// The caller must give it back, also after an error of ctx.
func (b *Backend) keep(ctx context.Context) (*hold, error) {
	h, err := sdk.InLoop(ctx, b.asks, func(l *loop) *hold {
		if l.lent != nil {
			close(l.lent.over) // who waits finds the next one
		}
		l.held = &hold{driver: l.driver, granted: make(chan struct{}), over: make(chan struct{})}
		l.lent = l.held
		if !l.looking {
			close(l.held.granted)
		}
		return l.held
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-h.granted:
		return h, nil
	case <-ctx.Done():
		return h, fmt.Errorf("wait for the driver: %w", ctx.Err())
	}
}

// giveBack gives the driver back to the loop. If GPUs were reset, it waits for a
// look that finds all of them answering. It gives the driver back also after ctx
// has ended.
func (b *Backend) giveBack(ctx context.Context, h *hold, reset []string) (*found, error) {
	w := newWaiter(ctx, reset)
	sure, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	_, err := sdk.InLoop(sure, b.asks, func(l *loop) bool {
		if l.held == h {
			l.held = nil
		}
		w.since, l.due = time.Now(), time.Now()
		if len(reset) > 0 {
			l.waiters = append(l.waiters, w)
		}
		return true
	})
	if err != nil || len(reset) == 0 {
		return nil, err
	}
	return w.wait(ctx)
}

// lookNow has the loop look at the GPUs, and says what it found.
func (b *Backend) lookNow(ctx context.Context) (*found, error) {
	w := newWaiter(ctx, nil)
	_, err := sdk.InLoop(ctx, b.asks, func(l *loop) bool {
		w.since, l.due = time.Now(), time.Now()
		l.waiters = append(l.waiters, w)
		return true
	})
	if err != nil {
		return nil, err
	}
	return w.wait(ctx)
}

var errNotBack = errors.New("the GPU was reset and does not answer yet")

// found is what a look found, as it was published.
type found struct {
	devices map[string]*sdk.Device
	gpus    map[string]driver.GPU
	away    error
}

// waiter waits for a look that began after since.
type waiter struct {
	ctx   context.Context
	since time.Time
	// reset are GPUs that were reset, and must answer.
	reset []string
	found chan *found
}

func newWaiter(ctx context.Context, reset []string) *waiter {
	return &waiter{ctx: ctx, reset: reset, found: make(chan *found, 1)}
}

func (w *waiter) wait(ctx context.Context) (*found, error) {
	select {
	case f := <-w.found:
		return f, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the GPUs to answer: %w", ctx.Err())
	}
}

// expect keeps GPUs in place that were reset and are not back yet: their faults are
// what they were, and nothing graver, until those who wait have given up.
func (l *loop) expect() {
	for _, w := range l.waiters {
		for _, uuid := range w.reset {
			if known := l.roster.gpus[uuid]; known != nil && (!known.missing.IsZero() || known.gpu.Err != nil) && w.ctx.Err() == nil {
				known.missing, known.gpu.Err = time.Time{}, errNotBack
			}
		}
	}
}

// forgive ends the faults of GPUs that were reset, answer, and say that nothing is
// wrong: evidence that the reset helped. What was heard before it counts no more.
func (l *loop) forgive(began time.Time) {
	for _, w := range l.waiters {
		if !w.since.Before(began) || !l.answers(w.reset) {
			continue
		}
		l.pending = slices.DeleteFunc(l.pending, func(e driver.Event) bool {
			return e.Time.Before(w.since) && slices.Contains(w.reset, l.concerned(e))
		})
		for _, uuid := range w.reset {
			if known := l.roster.gpus[uuid]; len(known.conditions(l.cfg.table)) == 0 {
				known.reload()
			}
		}
	}
}

// answers reports whether all of the GPUs answered the last look.
func (l *loop) answers(uuids []string) bool {
	return !slices.ContainsFunc(uuids, func(uuid string) bool {
		known := l.roster.gpus[uuid]
		return known == nil || known.gpu.Err != nil || !known.missing.IsZero()
	})
}

// answer tells those who wait for a look.
func (l *loop) answer(began time.Time) {
	if len(l.waiters) == 0 {
		return
	}
	var result *found
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil {
			return true // gone
		}
		if !w.since.Before(began) || len(w.reset) > 0 && (l.away != nil || !l.answers(w.reset)) {
			return false
		}
		if result == nil {
			result = l.result()
		}
		w.found <- result
		return true
	})
	for _, w := range l.waiters {
		next := time.Now()
		if w.since.Before(began) { // a GPU that was reset needs its time
			next = next.Add(retryFirst)
		}
		l.due = earlier(l.due, next)
	}
}

func (l *loop) result() *found {
	f := &found{devices: map[string]*sdk.Device{}, gpus: map[string]driver.GPU{}, away: l.away}
	devices, _ := l.listing().devices(l.roster)
	for _, d := range devices {
		f.devices[d.GetId()] = d
	}
	for uuid, known := range l.roster.gpus {
		f.gpus[uuid] = known.gpu
	}
	return f
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
