package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/clock"
)

// clocks are those of the node's processes while somebody has set the machine's.
type clocks struct {
	off time.Duration // 0: nobody has
	of  map[int]*clock.Clock
}

// stepClock has somebody set the machine's clock by an hour, and set it right again when
// the node is at rest: for the agents and the backends, not for the stand-ins. Both are
// changes of which nobody may take notice, whatever happens meanwhile. They are one step,
// since processes that are started have the real clock for a moment, and the two ends of a
// connection look at each other's certificates.
func (w *world) stepClock(ctx context.Context, arg int) error {
	if w.anyDown() {
		return errSkip // it may be started at any time
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	w.clocks = clocks{[]time.Duration{time.Hour, -time.Hour}[arg%2], map[int]*clock.Clock{}}
	err := w.spreadClock()
	if err == nil {
		err = w.meanwhile(ctx, arg/2)
	}
	for pid, c := range w.clocks.of {
		if back := c.Step(0); back != nil && !gone(back) {
			err = errors.Join(err, back)
		}
		delete(w.clocks.of, pid)
	}
	w.clocks.off = 0
	return err
}

// meanwhile is what happens while the clock is wrong.
func (w *world) meanwhile(ctx context.Context, arg int) error {
	var err error
	switch arg % 4 {
	case 0:
		err = w.restartKubelet(ctx, 0)
	case 1:
		err = w.flap(ctx, arg/4)
	case 2:
		err = w.deleteCDI(ctx, 0)
	}
	if err != nil && !errors.Is(err, errSkip) {
		return err
	}
	return w.settle(ctx)
}

// spreadClock gives the clock to the processes that have not got it yet.
func (w *world) spreadClock() error {
	if w.clocks.off == 0 {
		return nil
	}
	for _, t := range tasks(w.dir) {
		if w.clocks.of[t.PID] != nil || w.forked(t) {
			continue
		}
		c, err := clock.Of(t.PID)
		if err == nil {
			w.clocks.of[t.PID] = c
			err = c.Step(w.clocks.off)
		}
		switch {
		case err == nil || gone(err):
		case errors.Is(err, errors.ErrUnsupported):
			return errSkip
		default:
			return err
		}
	}
	return nil
}

// forked reports whether a process has the memory of an agent until it is a backend.
func (w *world) forked(t task) bool {
	name := filepath.Base(w.agent)
	return t.Name == name[:min(len(name), 15)] && !slices.ContainsFunc(w.agents, func(p *process) bool { return p.pid == t.PID })
}

// gone reports whether an error is that of a process that is gone, or about to be: its
// memory is.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EIO) || errors.Is(err, io.EOF)
}
