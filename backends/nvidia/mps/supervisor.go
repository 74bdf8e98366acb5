package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Timing has the intervals and limits of this package.
type Timing struct {
	// Start is the limit until a daemon answers for the first time, Poll the interval
	// of requests meanwhile.
	Start, Poll time.Duration
	// Check is the interval of requests to a daemon that is ready, Answer the limit of
	// an answer.
	Check, Answer time.Duration
	// Silences is the number of consecutive requests without an answer after which a daemon
	// is ended.
	Silences int
	// Quit is the limit of the quit command, and then of the daemon's end.
	Quit time.Duration
	// RetryFirst and RetryLast bound the pause before a daemon is started again; it doubles,
	// with jitter.
	RetryFirst, RetryLast time.Duration
	// Abandoned is how long a daemon without clients stays after the last backend has
	// disconnected.
	Abandoned time.Duration
}

// DefaultTiming returns the timing for a node.
func DefaultTiming() Timing {
	return Timing{
		Start: 30 * time.Second, Poll: 200 * time.Millisecond,
		Check: 10 * time.Second, Answer: 5 * time.Second, Silences: 4,
		Quit: 5 * time.Second, RetryFirst: time.Second, RetryLast: time.Minute, Abandoned: time.Minute,
	}
}

// supervisor runs one daemon by the plan. Its methods do not wait for the daemon, except
// close, and may be called from several goroutines.
type supervisor struct {
	log    *slog.Logger
	timing Timing
	place  place
	// notify is called after the status has changed.
	notify func()
	kick   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	wanted *Plan
	now    status
}

func newSupervisor(log *slog.Logger, timing Timing, at place, notify func()) *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{
		log: log, timing: timing, place: at, notify: notify,
		kick: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

// want sets the plan of the daemon; nil for none. A daemon that has clients is ended only
// after they have ended.
func (s *supervisor) want(p *Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted.equal(p) {
		s.wanted = p
		poke(s.kick)
	}
}

// status returns the status of the daemon.
func (s *supervisor) status() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// close ends the daemon and waits for its end.
func (s *supervisor) close() {
	s.cancel()
	<-s.done
}

func (s *supervisor) plan() *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// report stores whether a daemon is ready, and its plan.
func (s *supervisor) report(running *Plan, why error) {
	now := status{Running: running, Why: text(why)}
	s.mu.Lock()
	same := s.now == now
	s.now = now
	s.mu.Unlock()
	if same {
		return
	}
	if why != nil {
		s.log.Warn("the MPS control daemon is not ready", "error", why)
	}
	s.notify()
}

// run runs daemons until ctx ends.
func (s *supervisor) run(ctx context.Context) {
	defer close(s.done)
	defer s.release(nil) // the GPUs
	failures := 0
	for ctx.Err() == nil {
		plan, pause := s.plan(), time.Duration(0)
		if plan == nil {
			s.release(nil)
			s.report(nil, nil)
			failures = 0
		} else {
			began := time.Now()
			err := s.serve(ctx, plan)
			switch {
			case err == nil || ctx.Err() != nil:
				failures = 0
				continue
			case time.Since(began) > s.timing.RetryLast:
				failures = 0
			}
			s.report(nil, err)
			pause = min(s.timing.RetryFirst<<min(failures, 10), s.timing.RetryLast)
			pause = pause/2 + rand.N(pause/2)
			failures++
		}
		s.rest(ctx, plan, pause)
	}
}

// rest waits until the pause is over or the plan has changed; only for the latter if the
// pause is 0.
func (s *supervisor) rest(ctx context.Context, plan *Plan, pause time.Duration) {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	for s.plan().equal(plan) {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-s.kick:
		}
	}
}

// serve runs a daemon by a plan. It returns nil when the plan has changed and the daemon
// has no clients, or when ctx ended.
func (s *supervisor) serve(ctx context.Context, plan *Plan) error {
	if err := s.claim(ctx, plan); err != nil {
		return err
	}
	c, err := launch(s.place, plan)
	if err != nil {
		return err
	}
	defer c.end(s.timing)
	if err := s.await(ctx, c); err != nil || ctx.Err() != nil {
		return err
	}
	s.log.Info("the MPS control daemon is ready", "gpus", len(plan.Memory), "pid", c.command.Process.Pid)
	s.report(plan, nil)
	return s.watch(ctx, c)
}

// await waits until the daemon answers, and sets the limits.
func (s *supervisor) await(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.Start)
	defer cancel()
	poll := time.NewTicker(s.timing.Poll)
	defer poll.Stop()
	_, err := s.threads(ctx, c)
	for err != nil {
		select {
		case <-c.exited:
			return c.died()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the MPS control daemon is not ready after %v: %w", s.timing.Start, err)
			}
			return nil
		case <-poll.C:
			_, err = s.threads(ctx, c)
		}
	}
	for _, command := range c.plan.limits() {
		if _, err := c.send(ctx, s.timing.Answer, command); err != nil {
			return err
		}
	}
	percent, err := s.threads(ctx, c)
	if want := float64(c.plan.Threads); err == nil && want > 0 && percent >= 0 && math.Abs(percent-want) > 1 {
		err = fmt.Errorf("the MPS control daemon limits threads to %v percent instead of %v", percent, want)
	}
	return err
}

// threads reads the daemon's default limit of threads in percent; -1 if the answer is not a
// number. An error means that the daemon does not answer.
func (s *supervisor) threads(ctx context.Context, c *child) (float64, error) {
	answer, err := c.send(ctx, s.timing.Answer, "get_default_active_thread_percentage")
	if err != nil {
		return 0, err
	}
	percent, err := strconv.ParseFloat(answer, 64)
	if err != nil {
		return -1, nil //nolint:nilerr // an answer, though not a number
	}
	return percent, nil
}

// watch checks the daemon until it must end.
func (s *supervisor) watch(ctx context.Context, c *child) error {
	check := time.NewTicker(s.timing.Check)
	defer check.Stop()
	silences := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.exited:
			return c.died()
		case <-s.kick:
		case <-check.C:
			_, err := s.threads(ctx, c)
			switch {
			case ctx.Err() != nil || c.gone():
				continue
			case err == nil:
				silences = 0
				s.report(c.plan, nil)
			default:
				silences++
				s.report(nil, err)
			}
			if silences >= s.timing.Silences {
				return fmt.Errorf("the MPS control daemon was ended because it did not answer %d times: %w", silences, err)
			}
		}
		if !s.plan().equal(c.plan) && s.unused(ctx, c) {
			s.report(nil, nil)
			return nil
		}
	}
}

// unused reports whether the daemon has no clients. A daemon that does not answer may have
// some.
func (s *supervisor) unused(ctx context.Context, c *child) bool {
	servers, err := c.send(ctx, s.timing.Answer, "get_server_list")
	if err != nil {
		return false
	}
	for _, pid := range numbers(servers) {
		clients, err := c.send(ctx, s.timing.Answer, "get_client_list "+pid)
		if err != nil || len(numbers(clients)) > 0 {
			return false
		}
	}
	return true
}

// numbers returns the numbers in an answer and drops the other text.
func numbers(answer string) []string {
	return slices.DeleteFunc(strings.Fields(answer), func(word string) bool {
		_, err := strconv.ParseUint(word, 10, 32)
		return err != nil
	})
}
