package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/takeover"
)

const (
	// seatRetry and seatRetryLimit bound the pause between two attempts to reach an
	// active agent that does not answer; it doubles.
	seatRetry      = 50 * time.Millisecond
	seatRetryLimit = 2 * time.Second
	// longStandby is longer than any update takes.
	longStandby     = 15 * time.Minute
	longStandbyNote = "this agent stands by for long already, with nothing to do: if no update is going on, two of them are installed on this node"
)

// Run runs an agent until ctx ends. Without Options.TakeOver that is Open and
// [Agent.Run], which ends with an error when another agent has taken over. With
// it, the agents with one state directory take turns: the newest takes over as
// soon as its backends work, and the one before stands by, to take over again if
// the newest ends. One that has stood by takes over from nobody who is there to
// stay.
func Run(ctx context.Context, opts Options) error {
	if !opts.TakeOver {
		a, err := Open(opts)
		if err != nil {
			return err
		}
		return aloneEnd(a.Run(ctx))
	}
	t := &turns{opts: opts.withDefaults(), startedAt: time.Now()}
	defer t.giveUp()
	defer t.end()
	stoodBy := false
	for ctx.Err() == nil {
		switch err := t.turn(ctx); {
		case errors.Is(err, errAgain) && !stoodBy:
		case errors.Is(err, errSucceeded), errors.Is(err, errAgain):
			stoodBy = true
			if err := t.standBy(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// aloneEnd is the end of an agent that takes no turns: it says so if another one has
// taken over from it.
func aloneEnd(err error) error {
	if errors.Is(err, errSucceeded) {
		return fmt.Errorf("%w; this one ends, as it runs without --take-over: with it, it would stand by", err)
	}
	return err
}

// giveUp gives back what no turn has taken.
func (t *turns) giveUp() {
	var err error
	if t.post != nil {
		err = t.post.Close()
	}
	if t.place != nil {
		err = errors.Join(err, t.place.Close())
	}
	if err != nil {
		t.opts.Log.Warn("leave the other agents", "error", err)
	}
}

// turn runs one agent.
func (t *turns) turn(ctx context.Context) error {
	a, err := open(t.opts, func(dir string) (*takeover.Post, *takeover.Place, error) { return t.seat(ctx, dir) })
	switch {
	case err == nil:
		a.before = t.endBefore
		err := a.Run(ctx)
		t.end()
		if errors.Is(err, errDeserted) {
			t.linger(a)
		}
		return err
	case errors.Is(err, ctx.Err()):
		return nil // told to stop while it waited
	}
	return err
}

// end ends what an earlier turn still answers kubelet.
func (t *turns) end() {
	if t.endBefore != nil {
		t.endBefore()
		t.endBefore = nil
	}
}

// linger lets what answers kubelet go on until the next turn has what it asks for, or
// for reliefLimit.
func (t *turns) linger(a *Agent) {
	end := sync.OnceFunc(a.endServing)
	limit := time.AfterFunc(reliefLimit, end)
	t.endBefore = func() {
		limit.Stop()
		end()
	}
}

// turns is what a process is while it has no agent.
type turns struct {
	opts      Options
	startedAt time.Time
	// post is that of the next turn, or place is where this process waits for it; nil
	// if it does not.
	post  *takeover.Post
	place *takeover.Place
	// since is when it last began to stand by; zero if it never did.
	since time.Time
	// waits is the place at which it stands by.
	waits atomic.Pointer[takeover.Place]
	// unseated says why this process is neither active nor on standby for longer than an
	// update takes; nil if it is one of the two.
	unseated atomic.Pointer[string]
	// endBefore ends what an earlier turn still answers kubelet; nil if there is none.
	endBefore func()
}

// self is this process for the active agent.
func (t *turns) self() takeover.Peer {
	role, since := takeover.RoleSuccessor, t.startedAt
	if !t.since.IsZero() {
		role, since = takeover.RoleStandby, t.since
	}
	self := takeover.Self(role, status.Version)
	self.Since = since
	return self
}

// seat takes the post, or a place to wait for it.
func (t *turns) seat(ctx context.Context, dir string) (*takeover.Post, *takeover.Place, error) {
	if post, place := t.post, t.place; post != nil || place != nil {
		t.post, t.place = nil, nil
		return post, place, nil
	}
	pause := seatRetry
	defer t.unseated.Store(nil)
	for {
		post, err := takeover.Take(dir, takeover.Self(takeover.RoleActive, status.Version))
		if !errors.Is(err, takeover.ErrHeld) {
			return post, nil, err
		}
		place, queueErr := takeover.Queue(ctx, dir, t.self())
		if queueErr == nil {
			return nil, place, nil
		}
		level := slog.LevelDebug
		if pause == seatRetryLimit {
			level = slog.LevelWarn
			err = holderError(dir, err)
			text := fmt.Sprintf("no agent serves this node, and this one cannot: %v (%v)", err, queueErr)
			t.unseated.Store(&text)
		}
		t.opts.Log.Log(ctx, level, "the active agent does not answer, trying again", "holder", err, "error", queueErr)
		if !sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return nil, nil, ctx.Err()
		}
		pause = min(2*pause, seatRetryLimit)
	}
}

// standBy waits until the active agent is leaving or gone.
func (t *turns) standBy(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	t.opts.Log.Info("another agent has taken over, this one stands by")
	t.since = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- status.NewServer(t.opts.RunDir, t, t.opts.Log).Run(ctx) }()
	err := t.queue(ctx)
	cancel()
	return errors.Join(err, <-served)
}

// queue returns when the next turn is this agent's, which then has a post, or a place
// where the active one waits for it; or when ctx ends. An active agent that hangs up may have
// been succeeded by another than this one, and that is queued for like the one before.
func (t *turns) queue(ctx context.Context) error {
	for {
		post, place, err := t.seat(ctx, t.opts.StateDir)
		switch {
		case err != nil:
			return err
		case post != nil:
			t.post = post // the active agent is gone
			return nil
		case t.wait(ctx, place):
			t.place = place
			return nil
		}
		if err := place.Close(); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// wait waits at the place, and reports whether the active agent waits for this one.
func (t *turns) wait(ctx context.Context, place *takeover.Place) (leaving bool) {
	t.waits.Store(place)
	defer t.waits.Store(nil)
	long := time.NewTimer(longStandby)
	defer long.Stop()
	for {
		select {
		case <-place.Leaving():
			return true
		case <-place.Gone():
			return false
		case <-ctx.Done():
			return false
		case <-long.C:
			t.opts.Log.Warn(longStandbyNote)
		}
	}
}

// Report implements status.Source.
func (t *turns) Report() status.Report {
	problems := []status.Problem{}
	if time.Since(t.since) > longStandby {
		problems = append(problems, status.Problem{Message: longStandbyNote})
	}
	var active *takeover.Peer
	if place := t.waits.Load(); place != nil {
		active = place.Active()
	}
	// In a rollout a DaemonSet immediately deletes an older pod that is not ready, so an
	// agent on standby is ready as long as another one serves the node.
	notReady, reason := []string{}, "this agent is on standby"
	if active != nil {
		reason += fmt.Sprintf(": the agent with pid %d on %s serves the node", active.PID, active.Host)
	}
	if text := t.unseated.Load(); text != nil {
		notReady = append(notReady, *text)
		problems = append(problems, status.Problem{Message: *text})
	} else if active == nil {
		notReady = append(notReady, "this agent is on standby, and no other agent has reported that it serves this node")
	}
	return status.Report{
		Role: status.RoleStandby, Others: others(active), Node: t.opts.NodeName, Version: status.Version, PID: os.Getpid(), StartedAt: t.startedAt,
		Config:   status.Config{Path: t.opts.ConfigPath, Reason: reason},
		Backends: []status.Backend{}, Resources: []status.Resource{}, Problems: problems, NotReady: notReady,
	}
}

// Alive implements status.Source.
func (t *turns) Alive() {}

// Devices implements status.Source.
func (t *turns) Devices() []status.Device { return []status.Device{} }

// Healths implements status.Source.
func (t *turns) Healths(func(status.DeviceHealth)) {}

// Telemetry implements status.Source.
func (t *turns) Telemetry(context.Context) status.Telemetry {
	return status.Telemetry{Devices: []status.Measured{}}
}

// Topology implements status.Source.
func (t *turns) Topology(string) ([]diagram.Topology, error) { return []diagram.Topology{}, nil }

// Explain implements status.Source.
func (t *turns) Explain(context.Context, diagram.Question) (diagram.Choice, error) {
	return diagram.Choice{}, errors.New("the agent has no resource to offer; accelmux status says why")
}
