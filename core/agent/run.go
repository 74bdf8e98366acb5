package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/takeover"
)

// Run runs the agent until ctx ends, and then takes everything down: sockets,
// backend processes, CDI definitions that nobody holds. It returns nil when it
// was told to stop, and the first error that made it stop otherwise. With a
// successor, what it serves is not taken down before that one serves it.
func (a *Agent) Run(ctx context.Context) error {
	// The parts end when they are told, which is not yet when ctx does.
	parts, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	a.part(parts, end, &a.serving, "serve status", status.NewServer(a.opts.RunDir, a.Source, a.log).Run)
	if a.endpoint != nil {
		a.part(parts, end, &a.serving, "serve metrics", a.endpoint.Run)
	}
	var successor *takeover.Successor
	err := a.warmUp(ctx)
	if err == nil {
		duty, endDuty := context.WithCancel(parts)
		defer endDuty()
		a.start(parts, duty, end)
		successor, err = a.serve(ctx, parts)
		if successor != nil {
			err = a.handOver(endDuty, successor)
		}
	}
	end(nil)
	if !errors.Is(err, errDeserted) {
		a.endServing()
	}
	return errors.Join(err, a.close(successor))
}

// endServing ends what answers kubelet, and returns when it is over.
func (a *Agent) endServing() {
	a.endKubelet()
	a.kubelet.Wait()
}

// part runs one part of the agent. If it fails, all end.
func (a *Agent) part(ctx context.Context, end context.CancelCauseFunc, group *sync.WaitGroup, name string, run func(context.Context) error) {
	group.Go(func() {
		err := run(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			a.log.Warn("a part of the agent did not end well", "part", name, "error", err)
		default:
			end(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// start starts what the active agent does. Parts that serve kubelet go on until
// parts ends, the others until duty does.
func (a *Agent) start(parts, duty context.Context, end context.CancelCauseFunc) {
	a.log.Info("accelmux starts", "version", status.Version, "node", a.opts.NodeName,
		"path", a.opts.ConfigPath, "profile", a.plans.InForce().Profile.Name)
	onDuty := func(name string, run func(context.Context) error) { a.part(duty, end, &a.onDuty, name, run) }
	watcher := config.NewWatcher(a.opts.ConfigPath, config.Options{Known: a.file, Log: a.log})
	a.onDuty.Go(func() { watcher.Run(duty) })
	onDuty("follow the configuration", func(ctx context.Context) error { return a.plans.Run(ctx, watcher.Events()) })
	onDuty("keep the configuration", a.keeper.Run)
	onDuty("watch usage", a.book.Run)
	onDuty("find conflicting device plugins", a.conflicts.Run)
	onDuty("release and reset devices", a.lifecycle.Run)
	onDuty("watch the CDI directory", a.cdi.Run)
	serving, endKubelet := context.WithCancel(context.WithoutCancel(parts))
	a.endKubelet = endKubelet
	a.part(serving, end, &a.kubelet, "serve kubelet", a.plugin.Run)
	if a.selection != nil {
		onDuty("watch the node's labels", a.selection.Run)
	}
	if a.events != nil {
		onDuty("write Events", a.events.Run)
	}
	onDuty("measure", a.telemetry.Run)
	if a.features != nil {
		onDuty("publish features", a.features.Run)
	}
	a.plans.Apply()
	onDuty("serve the devices", a.loop)
	if a.place != nil || a.before != nil {
		a.onDuty.Go(func() { a.relieve(duty) })
	}
}

// serve returns when it is time to end: for a successor, or nil, or with the
// error of a part.
func (a *Agent) serve(ctx, parts context.Context) (*takeover.Successor, error) {
	kept, intruder := "", ""
	for {
		select {
		case <-parts.Done():
			return nil, context.Cause(parts)
		case <-a.post.Changed():
			if text := a.post.Intruder(); text != intruder {
				intruder = text
				a.log.Warn("refused to let a process take over from this agent", "error", text)
			}
			successor, failing := a.post.Ready()
			if successor == nil {
				continue
			}
			backend := a.lostTo(failing)
			if backend == "" {
				return successor, nil
			}
			if backend != kept { // it asks again and again
				a.log.Warn("another agent wants to take over, but one of its backends does not work: this one stays", "backend", backend)
			}
			kept = backend
		case <-ctx.Done():
			a.log.Info("accelmux stops")
			return a.leave(parts), nil
		}
	}
}

// close ends what is left. The device plugin and everything else that ends
// with Run's context is on its way out already, so kubelet sees the resources go
// as a whole, not device by device.
func (a *Agent) close(successor *takeover.Successor) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.opts.Timing.Stop)
	defer cancel()
	err := a.supervisor.Close(ctx)
	a.onDuty.Wait()
	a.serving.Wait()
	if successor == nil && a.active.Load() {
		err = errors.Join(err, a.closeState(a.book.Held))
	}
	return errors.Join(err, a.giveUp())
}

// closeState closes what openState opened. CDI definitions of devices that are
// not held are removed; nil keeps all.
func (a *Agent) closeState(held func(inventory.Key) bool) error {
	return errors.Join(a.cdi.Close(held), a.book.Close(), a.health.Close())
}

// statuses are the supervisor's, by backend.
func (a *Agent) statuses() map[string]supervisor.Status {
	statuses := map[string]supervisor.Status{}
	for _, s := range a.supervisor.Status() {
		statuses[s.Name] = s
	}
	return statuses
}
