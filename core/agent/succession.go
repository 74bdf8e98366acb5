package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/takeover"
)

const (
	// warmLimit is how long a successor's backends may still start when the active
	// agent is leaving.
	warmLimit = 5 * time.Second
	// leaveLimit is how long an agent that was told to stop waits for a successor
	// that is there, but not ready.
	leaveLimit = 15 * time.Second
	// finishLimit is how long work on devices that is going on may hold up a
	// successor: longer than kubelet waits for a container's preparation.
	finishLimit = 40 * time.Second
	// reliefLimit is how long the one before goes on serving for a successor that
	// does not get through to kubelet.
	reliefLimit = 30 * time.Second
	// takeLimit is how long the lock of an agent that is gone may take to be free.
	takeLimit = time.Second
	// askAgain is how often a successor that was not let in asks again: what speaks
	// against it may have changed on the other side.
	askAgain = 2 * time.Second
	// look is how often a successor looks whether kubelet has taken its resources.
	look = 20 * time.Millisecond
)

var (
	// errSucceeded is the end of an agent that another one has taken over from.
	errSucceeded = errors.New("another agent has taken over")
	// errDeserted is the same, of one that is gone before it had what kubelet asks for:
	// then kubelet's calls are still answered by what this agent had, which its own
	// next turn ends.
	errDeserted = fmt.Errorf("%w, and is gone", errSucceeded)
	// errAgain is the end of a successor that must begin anew.
	errAgain = errors.New("what this agent waited with is out of date")
)

// warmUp starts the backends, and waits until this is the active agent. It
// returns at once if it is.
func (a *Agent) warmUp(ctx context.Context) error {
	if a.post != nil {
		return nil
	}
	a.log.Info("another agent is active: the backends are started, then this one takes over", "dir", a.opts.StateDir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher := config.NewWatcher(a.opts.ConfigPath, config.Options{Known: a.file, Log: a.log})
	a.onDuty.Go(func() { watcher.Run(ctx) })
	a.plans.Apply()
	if err := a.awaitPost(ctx, watcher.Events()); err != nil {
		return err
	}
	if err := a.takePost(ctx); err != nil {
		return err
	}
	return a.openState()
}

// takePost takes the post that was granted, or whose holder is gone: a process
// that dies may hang up a moment before it lets go of its locks.
func (a *Agent) takePost(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, takeLimit)
	defer cancel()
	for {
		a.post, err = takeover.Take(a.opts.StateDir, takeover.Self(takeover.RoleActive, status.Version))
		switch {
		case !errors.Is(err, takeover.ErrHeld):
			return err
		case !sleep(ctx, look):
			return errAgain // somebody was faster
		}
	}
}

// awaitPost returns nil when the post may be had.
func (a *Agent) awaitPost(ctx context.Context, files <-chan config.Event) error {
	leaving, hurry := a.place.Leaving(), (<-chan time.Time)(nil)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	patient := true
	for {
		if waits, failing := a.warm(); waits == "" || !patient {
			if err := a.place.Ask(failing); err != nil {
				a.log.Debug("ask the active agent", "error", err) // Gone tells
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.place.Granted():
			return nil
		case <-a.place.Gone():
			return nil
		case <-files:
			return errAgain
		case <-leaving:
			leaving, hurry = nil, time.After(warmLimit)
		case <-hurry:
			patient = false
		case <-a.wake:
		case <-again.C:
		}
	}
}

// warm says what a successor waits for before it asks, and which backends do not
// work here.
func (a *Agent) warm() (waits string, failing []string) {
	statuses := a.statuses()
	for _, b := range a.plans.InForce().Profile.Backends {
		switch s := statuses[b.Name]; {
		case s.Applied:
		case s.Failed:
			failing = append(failing, b.Name)
		default:
			waits = "backend " + b.Name + " has not reported yet"
		}
	}
	note := waits
	if waits == "" {
		note = "the active agent finishes what it is about"
		if len(failing) > 0 {
			note = "these backends work at the active agent, but not here: " + strings.Join(failing, ", ")
		}
	}
	a.waits.Store(&note)
	return waits, failing
}

// lostTo is the first backend that works here, and would be lost to a successor at
// which these do not work; "" if none. One that only takes on its settings here
// does work, and so does one that is down, as long as its devices are held over.
func (a *Agent) lostTo(failing []string) string {
	statuses := a.statuses()
	for _, name := range failing {
		if s, here := statuses[name]; here && (s.State == supervisor.Running || !s.Failed || a.holdsOver(name)) {
			return name
		}
	}
	return ""
}

// holdsOver reports whether kubelet still has the devices of a backend that stopped.
func (a *Agent) holdsOver(name string) bool {
	b := a.plans.InForce().Profile.Backend(name)
	return b != nil && slices.ContainsFunc(a.inventory.Snapshot().Backends, func(known *inventory.Backend) bool {
		return known.Name == name && !known.LostAt.IsZero() && time.Since(known.LostAt) < time.Duration(b.Holdover)
	})
}

// leave is the successor for an agent that was told to stop, or nil.
func (a *Agent) leave(parts context.Context) *takeover.Successor {
	limit := time.NewTimer(leaveLimit)
	defer limit.Stop()
	come := time.NewTimer(a.opts.Timing.SuccessorWait)
	defer come.Stop()
	patient := a.opts.TakeOver
	for {
		waiting := a.post.Leave()
		if successor, _ := a.post.Ready(); successor != nil {
			return successor
		}
		if !waiting && !patient {
			return nil
		}
		select {
		case <-a.post.Changed():
		case <-come.C:
			patient = false
		case <-parts.Done():
			return nil
		case <-limit.C:
			a.log.Warn("the agent that waits is not ready in time: there is a gap", "limit", leaveLimit)
			return nil
		}
	}
}

// handOver ends this agent's duty, and returns when its successor serves kubelet.
// Until then kubelet's calls are answered from what is in memory.
func (a *Agent) handOver(endDuty func(), successor *takeover.Successor) error {
	a.log.Info("another agent takes over")
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	a.book.Drain(ctx)
	a.plugin.Yield(ctx)
	endDuty()
	a.onDuty.Wait()
	if err := errors.Join(a.closeState(nil), a.post.Yield(successor)); err != nil {
		a.log.Warn("hand over to another agent", "error", err)
	}
	if a.awaitRelief(successor) {
		return errSucceeded
	}
	a.log.Warn("the agent that was about to take over is gone: this one takes over again, and answers kubelet meanwhile")
	return errDeserted
}

// awaitRelief returns true when nothing is lost if this agent ends: its successor is
// through to kubelet, or kubelet does not listen to this one any more; or false when the
// successor is gone.
func (a *Agent) awaitRelief(successor *takeover.Successor) bool {
	limit := time.NewTimer(2 * reliefLimit)
	defer limit.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	serving := func(s deviceplugin.Status) bool { return s.State == deviceplugin.StateServing }
	for slices.ContainsFunc(a.plugin.Status(), serving) {
		select {
		case <-successor.Over():
			return a.post.Took(successor)
		case <-limit.C:
			a.log.Warn("the agent that took over does not say that it is through")
			return true
		case <-ticker.C:
		}
	}
	return true
}

// relieve ends the agents before this one, when kubelet has taken what this
// agent has.
func (a *Agent) relieve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reliefLimit)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	missing := func() bool {
		f := a.facts()
		if a.before != nil { // the backends have just been started
			return len(f.NotReady()) > 0
		}
		return f.Round == nil || len(f.Unregistered()) > 0
	}
	for missing() {
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
			a.log.Warn("the agent before this one ends, though not all is through to kubelet")
		}
		break
	}
	if a.before != nil {
		a.before()
	}
	if a.place == nil {
		return
	}
	if err := a.place.Taken(); err != nil {
		a.log.Debug("tell the agent before this one", "error", err) // it is gone already
	}
}
