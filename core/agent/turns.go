package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/accelmux/accelmux/core/handover"
	"github.com/accelmux/accelmux/core/status"
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
// [Agent.Run]. With it, the agents with one state directory take turns: the
// newest takes over as soon as its backends work, and the one before stands by,
// to take over again if the newest ends.
func Run(ctx context.Context, opts Options) error {
	if !opts.TakeOver {
		a, err := Open(opts)
		if err != nil {
			return err
		}
		return a.Run(ctx)
	}
	t := &turns{opts: opts.withDefaults(), startedAt: time.Now()}
	for ctx.Err() == nil {
		switch err := t.turn(ctx); {
		case errors.Is(err, errAgain):
		case errors.Is(err, errSucceeded):
			if err := t.standBy(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// turn runs one agent.
func (t *turns) turn(ctx context.Context) error {
	a, err := open(t.opts, func(dir string) (*handover.Post, *handover.Place, error) { return t.seat(ctx, dir) })
	switch {
	case err == nil:
		return a.Run(ctx)
	case errors.Is(err, ctx.Err()):
		return nil // told to stop while it waited
	}
	return err
}

// turns is what a process is while it has no agent.
type turns struct {
	opts      Options
	startedAt time.Time
	// place is where this process waits for the next turn; nil if it does not.
	place *handover.Place
	// since is when it last began to stand by.
	since time.Time
}

// seat takes the post, or a place to wait for it.
func (t *turns) seat(ctx context.Context, dir string) (*handover.Post, *handover.Place, error) {
	if place := t.place; place != nil {
		t.place = nil
		return nil, place, nil
	}
	pause := seatRetry
	for {
		post, err := handover.Take(dir)
		if !errors.Is(err, handover.ErrHeld) {
			return post, nil, err
		}
		place, queueErr := handover.Queue(ctx, dir)
		if queueErr == nil {
			return nil, place, nil
		}
		level := slog.LevelDebug
		if pause == seatRetryLimit {
			level = slog.LevelWarn
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
	post, place, err := t.seat(ctx, t.opts.StateDir)
	if err == nil && post != nil {
		err = post.Close() // the active agent is gone: a new turn takes it
	}
	if place != nil && t.wait(ctx, place) {
		t.place = place
	} else if place != nil {
		err = place.Close()
	}
	cancel()
	return errors.Join(err, <-served)
}

// wait waits at the place, and reports whether the active agent waits for this one.
func (t *turns) wait(ctx context.Context, place *handover.Place) (leaving bool) {
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
	return status.Report{
		Role: status.RoleStandby, Node: t.opts.NodeName, Version: status.Version, PID: os.Getpid(), StartedAt: t.startedAt,
		Config:   status.Config{Path: t.opts.ConfigPath, Reason: "another agent has taken over; this one stands by"},
		Backends: []status.Backend{}, Resources: []status.Resource{}, Problems: problems, NotReady: []string{},
	}
}

// Devices implements status.Source.
func (t *turns) Devices() []status.Device { return []status.Device{} }

// Telemetry implements status.Source.
func (t *turns) Telemetry(context.Context) status.Telemetry {
	return status.Telemetry{Devices: []status.Measured{}}
}
