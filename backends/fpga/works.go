package fpga

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// works keeps what changes cards to one thing at a time for each. The zero value is
// ready; it is safe for concurrent use.
type works struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // by the ID of the card; has one element while it is busy
}

// enter waits until nothing is done to a card, and says how to leave it again, which is
// done once. It fails when ctx ends before.
func (w *works) enter(ctx context.Context, card string) (leave func(), err error) {
	place := w.place(card)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("something else is done to the card %s, and has not come to its end: %w", card, ctx.Err())
	}
}

// try is enter without waiting.
func (w *works) try(card string) (leave func(), ok bool) {
	place := w.place(card)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), true
	default:
		return nil, false
	}
}

func (w *works) place(card string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy == nil {
		w.busy = map[string]chan struct{}{}
	}
	if w.busy[card] == nil {
		w.busy[card] = make(chan struct{}, 1)
	}
	return w.busy[card]
}

// task is what this process does to a region.
type task struct {
	// what it is, in words: "x.gbs is being programmed into it".
	what  string
	reset bool
	// since is when it began.
	since time.Time
	// over says that it ended: a look with a number above overAt can tell what came of
	// it. Abandoned says that who asked for it does not wait any more.
	over, abandoned bool
	overAt          uint64
}

// work does something to a region, and returns what that returns. The caller has entered
// the card, and leave is called when it is really over: when ctx ends the caller need
// wait no more, though the kernel may go on. In the loop, ended takes in what came of it.
// What do is given ends earlier (see [sdk.InTime]): what can be broken off, as a tool
// that hangs can, says itself what became of it.
func (b *Backend) work(ctx context.Context, l *loop, id string, t *task, leave func(), do func(context.Context) error, ended func(*region, error)) error {
	began := make(chan bool, 1)
	if !l.post(func() {
		r := l.roster.region(id)
		if r != nil {
			t.since, r.task = time.Now(), t
		}
		began <- r != nil
	}) || !<-began {
		leave()
		return fmt.Errorf("there is no device %s (any more)", id)
	}
	result := make(chan error, 1)
	go func() {
		early, cancel := sdk.InTime(ctx)
		defer cancel()
		err := do(early)
		l.post(func() {
			t.over = true
			if r := l.roster.region(id); r != nil {
				t.overAt = r.of.by.begun
				ended(r, err)
				// Who waits for it asks for a look at once, which is enough.
				r.of.by.wantAt(time.Now().Add(settle))
			}
		})
		leave()
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result: // it ended because ctx did
		return err
	default:
	}
	l.post(func() { t.abandoned = !t.over })
	return fmt.Errorf("%s, which has not come to its end and was not waited for any longer: %w", t.what, ctx.Err())
}
