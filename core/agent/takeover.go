package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/takeover"
)

const (
	// finishLimit bounds the work on devices that an agent finishes before it releases the
	// state directory: longer than kubelet waits for a container's preparation.
	finishLimit = 35 * time.Second
	// connectLimit bounds the time for which an agent answers kubelet for a newer one that
	// is not connected yet. With finishLimit and Timing.Stop it is less than the chart's
	// terminationGracePeriodSeconds.
	connectLimit = 20 * time.Second
	// connectPoll is the interval in which a newer agent checks whether kubelet is connected.
	connectPoll = 50 * time.Millisecond
	// longStandby is longer than a rollout takes on one node.
	longStandby = 15 * time.Minute
)

// errOutdated ends an agent on standby whose configuration file has changed: it starts again.
var errOutdated = errors.New("the configuration file has changed")

// Run runs an agent until ctx ends. With Options.TakeOver, Run waits until the agent that has
// locked the state directory ends. Without it, Run fails after lockPatience. See package
// takeover.
func Run(ctx context.Context, opts Options) error {
	claim := takeover.New(opts.StateDir)
	for {
		a, err := open(opts, claim)
		if err != nil {
			return err
		}
		if err := a.Run(ctx); !errors.Is(err, errOutdated) {
			return err
		}
	}
}

// claimState locks the state directory, and reports whether it is locked. If another agent
// has it, this is no error with Options.TakeOver: standBy waits.
func (a *Agent) claimState() (locked bool, err error) {
	if a.opts.TakeOver {
		if err = a.claim.Lock(); errors.Is(err, takeover.ErrHeld) {
			return false, nil
		}
		return err == nil, err
	}
	_, err = patiently(a.log, func() (struct{}, error) { return struct{}{}, a.claim.Lock() })
	if errors.Is(err, takeover.ErrHeld) {
		err = fmt.Errorf("%w: stop it, or wait for its end with --take-over and a --run-dir of its own", err)
	}
	return err == nil, err
}

// standBy starts the backends and returns when this agent has the state directory, or with
// the error of a part. It returns at once if it has the directory already.
func (a *Agent) standBy(ctx, parts context.Context) error {
	if a.active.Load() {
		return nil
	}
	a.log.Info("another agent serves the node: this one starts its backends and takes over when that one ends", "dir", a.opts.StateDir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher := config.NewWatcher(a.opts.ConfigPath, config.Options{Known: a.file, Files: a.files})
	a.onDuty.Go(func() { watcher.Run(ctx) })
	a.plans.Apply()
	locked := make(chan error, 1)
	a.onDuty.Go(func() { locked <- a.claim.Wait(ctx) })
	select {
	case <-parts.Done():
		return context.Cause(parts)
	case _, changed := <-watcher.Events():
		if !changed { // closed, because ctx has ended
			return ctx.Err()
		}
		return errOutdated
	case err := <-locked:
		if err != nil {
			return err
		}
		return a.openState()
	}
}

// giveUp ends this agent's duty if another agent waits for it, and returns when kubelet is
// connected to that one. Until then kubelet's calls are answered from memory.
func (a *Agent) giveUp(endDuty func()) {
	newer := a.claim.Standby()
	if newer == nil {
		return
	}
	a.log.Info("another agent takes over", "pid", newer.PID, "host", newer.Host)
	finish, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	a.book.Drain(finish)
	a.plugin.Yield(finish)
	endDuty()
	a.onDuty.Wait()
	a.ending.Store(true)
	err := a.closeState(nil)
	connect, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	serves, failed := a.claim.Release(connect)
	if err := errors.Join(err, failed); err != nil {
		a.log.Warn("releasing the state directory failed", "error", err)
	}
	if serves != nil {
		a.log.Info("kubelet is connected to the other agent", "pid", serves.PID, "host", serves.Host)
	}
}

// awaitKubelet lets the agent before this one end when kubelet has every resource from this
// one. That agent can do nothing for an API server that does not answer. After connectLimit that one has ended anyway.
func (a *Agent) awaitKubelet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	for len(a.facts().NotConnected()) > 0 {
		if !backoff.Sleep(ctx, connectPoll) {
			return
		}
	}
	a.claim.Connected()
}

// role returns what the agent does among those of its state directory.
func (a *Agent) role() status.Role {
	switch {
	case a.ending.Load():
		return status.RoleEnding
	case a.active.Load():
		return status.RoleActive
	}
	return status.RoleStandby
}

// notInstalledTwice ends what is shown of agents that may be there by mistake.
const notInstalledTwice = "if no update is in progress, accelmux is installed twice on this node (two charts, or a service beside a DaemonSet): remove one"

// other returns the entry of another agent of the state directory.
func other(role status.Role, owner *takeover.LockOwner) []status.Other {
	if owner == nil {
		return nil
	}
	note := "it serves the node; " + notInstalledTwice
	if role == status.RoleStandby {
		note = "it takes over when this one ends; " + notInstalledTwice
	}
	return []status.Other{{Role: role, PID: owner.PID, Host: owner.Host, Since: owner.Since, Note: note}}
}

// standbyFacts completes the facts of an agent on standby.
func (a *Agent) standbyFacts(f status.Facts) status.Facts {
	f.Agent.Others = other(status.RoleActive, a.claim.Active())
	if !a.claim.Next() {
		f.Agent.Waits = []string{"another agent is on standby already"}
	}
	if time.Since(a.startedAt) > longStandby {
		f.Problems = append(f.Problems, status.Problem{
			Message: "this agent has been on standby for " + longStandby.String() + " or longer: " + notInstalledTwice,
		})
	}
	return f
}
