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

// Timing says how long a supervisor waits for what.
type Timing struct {
	// Start is how long a daemon may take until it answers; Poll how often it is
	// asked meanwhile.
	Start, Poll time.Duration
	// Check is how often a daemon is asked whether it still answers; Answer is how
	// long it may take to.
	Check, Answer time.Duration
	// Deaf is after how many answers that did not come a daemon is ended.
	Deaf int
	// Quit is how long a daemon may take to hear that it is to end, and then to end.
	// A backend that is told to end has a second in all.
	Quit time.Duration
	// RetryFirst and RetryLast bound the pause before a daemon is started again;
	// it doubles, and a part of it is by chance.
	RetryFirst, RetryLast time.Duration
}

// DefaultTiming is for nodes.
func DefaultTiming() Timing {
	return Timing{
		Start: 30 * time.Second, Poll: 200 * time.Millisecond,
		Check: 10 * time.Second, Answer: 5 * time.Second, Deaf: 4,
		Quit: 300 * time.Millisecond, RetryFirst: time.Second, RetryLast: time.Minute,
	}
}

// Supervisor keeps one daemon as wanted. Its methods never wait for the daemon,
// but for [Supervisor.Close], and may be called from several goroutines. It is
// idle, without a goroutine, until something is wanted.
type Supervisor struct {
	log     *slog.Logger
	timing  Timing
	changed chan struct{}
	kick    chan struct{}

	mu      sync.Mutex
	wanted  *Plan
	running *Plan // that of the daemon that is ready; nil if none is
	why     error // why none is
	closed  bool
	cancel  context.CancelFunc
	done    chan struct{} // nil until something was wanted
}

// NewSupervisor is a supervisor that nothing is wanted of yet. It must be closed.
func NewSupervisor(log *slog.Logger, timing Timing) *Supervisor {
	return &Supervisor{log: log, timing: timing, changed: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
}

// Want has a daemon run as planned; nil for none. A daemon that has clients is left
// as it is until they are gone, so that no container loses its work for another
// GPU, or for other limits.
func (s *Supervisor) Want(p *Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.wanted.equal(p) {
		return
	}
	s.wanted = p
	if s.done == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.cancel, s.done = cancel, make(chan struct{})
		go s.run(ctx, s.done)
	}
	signal(s.kick)
}

// Changed receives after something about [Supervisor.NotReady] has changed. It
// holds one event; there should be one reader.
func (s *Supervisor) Changed() <-chan struct{} { return s.changed }

// NotReady is why no container can be given the GPU with this UUID; nil if the
// daemon shares it, as it is wanted.
func (s *Supervisor) NotReady(uuid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.running.serves(uuid, s.wanted):
		return nil
	case s.running != nil:
		return errors.New("the MPS control daemon runs without this GPU or with other limits, " +
			"and is started anew when no process uses it any more")
	case s.why != nil:
		return s.why
	}
	return errors.New("the MPS control daemon is being started")
}

// Close ends the daemon and waits for its end, for four times [Timing.Quit]; it is
// killed after two.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if done != nil {
		cancel()
		select {
		case <-done:
		case <-time.After(4 * s.timing.Quit):
		}
	}
}

func (s *Supervisor) plan() *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// tell notes whether a daemon is ready, and by which plan.
func (s *Supervisor) tell(running *Plan, why error) {
	s.mu.Lock()
	same := s.running == running && text(s.why) == text(why)
	s.running, s.why = running, why
	s.mu.Unlock()
	if same {
		return
	}
	if why != nil {
		s.log.Warn("GPUs cannot be shared by MPS now, trying again", "error", why)
	}
	signal(s.changed)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is waiting already
	}
}

// run keeps a daemon until ctx ends.
func (s *Supervisor) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	failures := 0
	for ctx.Err() == nil {
		plan, pause := s.plan(), time.Duration(0)
		if plan == nil {
			s.tell(nil, nil)
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
			s.tell(nil, err)
			pause = min(s.timing.RetryFirst<<min(failures, 10), s.timing.RetryLast)
			pause = pause/2 + rand.N(pause/2)
			failures++
		}
		s.rest(ctx, plan, pause)
	}
}

// rest waits until the pause is over or another plan is wanted; for the latter
// alone if there is no pause.
func (s *Supervisor) rest(ctx context.Context, plan *Plan, pause time.Duration) {
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

// serve runs a daemon by a plan. It returns nil when another plan is wanted and
// nobody uses the daemon, or when ctx ended.
func (s *Supervisor) serve(ctx context.Context, plan *Plan) error {
	c, err := launch(plan)
	if err != nil {
		return err
	}
	defer c.end(s.timing)
	if err := s.await(ctx, c); err != nil || ctx.Err() != nil {
		return err
	}
	s.log.Info("the MPS control daemon is ready", "gpus", len(plan.memory), "pid", c.command.Process.Pid)
	s.tell(plan, nil)
	return s.watch(ctx, c)
}

// await waits until the daemon answers, and sets the limits.
func (s *Supervisor) await(ctx context.Context, c *child) error {
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
		if _, err := c.ask(ctx, s.timing.Answer, command); err != nil {
			return err
		}
	}
	percent, err := s.threads(ctx, c)
	if want := float64(c.plan.threads); err == nil && want > 0 && percent >= 0 && math.Abs(percent-want) > 1 {
		err = fmt.Errorf("the MPS control daemon was told to limit threads to %v percent, and says %v", want, percent)
	}
	return err
}

// threads asks the daemon for its default limit in percent, to see whether it
// answers; -1 if the answer is no number.
func (s *Supervisor) threads(ctx context.Context, c *child) (float64, error) {
	answer, err := c.ask(ctx, s.timing.Answer, "get_default_active_thread_percentage")
	if err != nil {
		return 0, err
	}
	percent, err := strconv.ParseFloat(answer, 64)
	if err != nil {
		return -1, nil //nolint:nilerr // it did answer
	}
	return percent, nil
}

// watch asks the daemon now and then whether it is still there.
func (s *Supervisor) watch(ctx context.Context, c *child) error {
	check := time.NewTicker(s.timing.Check)
	defer check.Stop()
	deaf := 0
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
				deaf = 0
				s.tell(c.plan, nil)
			default:
				deaf++
				s.tell(nil, err)
			}
			if deaf >= s.timing.Deaf {
				return fmt.Errorf("the MPS control daemon was ended since it did not answer %d times: %w", deaf, err)
			}
		}
		if !s.plan().equal(c.plan) && s.unused(ctx, c) {
			s.tell(nil, nil)
			return nil
		}
	}
}

// unused reports whether no process computes by the daemon. A daemon that does not
// say so is used.
func (s *Supervisor) unused(ctx context.Context, c *child) bool {
	servers, err := c.ask(ctx, s.timing.Answer, "get_server_list")
	if err != nil {
		return false
	}
	for _, pid := range numbers(servers) {
		clients, err := c.ask(ctx, s.timing.Answer, "get_client_list "+pid)
		if err != nil || len(numbers(clients)) > 0 {
			return false
		}
	}
	return true
}

// numbers are the words of an answer that are numbers; the rest is for people.
func numbers(answer string) []string {
	return slices.DeleteFunc(strings.Fields(answer), func(word string) bool {
		_, err := strconv.ParseUint(word, 10, 32)
		return err != nil
	})
}
