package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells now and then how far a run is. It does not wait for a step to end, which
// may take as long as the bound.
type progress struct {
	out   io.Writer
	seed  uint64 // of the draw; 0 if the steps are given
	most  int    // steps that may be done
	began time.Time

	mu            sync.Mutex
	done, skipped int
	doing         string
	since         time.Time

	stop    chan struct{}
	running sync.WaitGroup
}

// follow begins to tell of a run of so many steps; end ends it. With -v there is a line
// for each step, and none of these.
func (r *runner) follow(steps int) *progress {
	now := time.Now()
	p := &progress{out: r.out, seed: r.seed, most: steps, began: now, doing: "the start", since: now, stop: make(chan struct{})}
	if r.most > 0 {
		p.most = min(steps, r.most)
	}
	if r.every > 0 && !r.verbose {
		p.running.Go(func() { p.tell(r.every) })
	}
	return p
}

// turn says what the run does now, and what came of it so far.
func (p *progress) turn(to string, so result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing, p.since, p.done, p.skipped = to, time.Now(), so.done, so.skipped
}

func (p *progress) end() {
	close(p.stop)
	p.running.Wait()
}

func (p *progress) tell(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			_, _ = fmt.Fprintln(p.out, p)
		}
	}
}

// String is the line. It has no violations, since a run ends with the first.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	draw := ""
	if p.seed != 0 {
		draw = fmt.Sprintf(" of SEED=%d", p.seed)
	}
	return fmt.Sprintf("after %v: %d of %d steps%s are done, %d more had nothing to do; %s began %v ago",
		time.Since(p.began).Round(time.Second), p.done, p.most, draw, p.skipped, p.doing, time.Since(p.since).Round(time.Millisecond))
}
