package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/wake"
)

// Run runs the agent until ctx ends, and then takes everything down: sockets, backend
// processes, CDI definitions of devices that are not allocated. It returns nil when it was
// cancelled, and the first error that made it stop otherwise. If another agent waits to
// take over, the resources are served until kubelet is connected to that one.
func (a *Agent) Run(ctx context.Context) error {
	// parts does not inherit ctx's cancellation: the parts stop when end is called.
	parts, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	a.part(parts, end, &a.serving, "serve status", status.NewServer(a.opts.RunDir, a.Source, a.log).Run)
	if a.metrics != nil {
		a.part(parts, end, &a.serving, "serve metrics", a.metrics.Run)
		a.part(parts, end, &a.serving, "store samples for the page", a.page.Run)
	}
	if a.probes != nil {
		a.part(parts, end, &a.serving, "answer probes", a.probes.Run)
	}
	if a.node != nil { // also on standby, as node labels pause backends
		a.part(parts, end, &a.serving, "watch the Node", a.node.Run)
	}
	err := a.standBy(ctx, parts)
	if err == nil {
		duty, endDuty := context.WithCancel(parts)
		defer endDuty()
		a.start(parts, duty, end)
		if err = a.serve(ctx, parts); err == nil {
			a.giveUp(endDuty)
		}
	}
	end(nil)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // cancelled while it was on standby
	}
	return a.close(err)
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
	watcher := config.NewWatcher(a.opts.ConfigPath, config.Options{Known: a.file, Files: a.files})
	a.onDuty.Go(func() { watcher.Run(duty) })
	onDuty("follow the configuration", func(ctx context.Context) error { return a.plans.Run(ctx, watcher.Events()) })
	a.onDuty.Go(func() { a.followManifests(duty) })
	onDuty("store what is in force", a.memory.Run)
	onDuty("store the allocations", a.book.Run)
	onDuty("list kubelet's pods", a.pods.Run)
	if a.opts.FindKubelet {
		onDuty("find kubelet", func(ctx context.Context) error { return a.opts.kubeletRoot().Follow(ctx, a.opts.KubeletRootDir) })
	}
	onDuty("find conflicting device plugins", a.conflicts.Run)
	onDuty("release and reset devices", a.lifecycle.Run)
	onDuty("watch the CDI directory", a.cdi.Run)
	onDuty("serve claims", a.dra.Run)
	onDuty("reconcile claims", a.claims.Run)
	a.part(parts, end, &a.serving, "serve kubelet", a.plugin.Run)
	if a.events != nil {
		onDuty("write Events", a.events.Run)
	}
	if a.condition != nil {
		onDuty("write the Node's condition", a.condition.Run)
	}
	onDuty("measure", a.telemetry.Run)
	if a.features != nil {
		onDuty("publish features", a.features.Run)
	}
	a.plans.Apply()
	onDuty("serve the devices", a.loop)
	a.onDuty.Go(func() { a.awaitKubelet(duty) })
}

// followManifests reports changes in the backend directory until ctx ends.
func (a *Agent) followManifests(ctx context.Context) {
	const settle, poll = time.Second, time.Minute
	files := a.files.Subscribe(filewatch.Options{Dirs: []string{a.opts.BackendDir}, Settle: settle})
	defer files.Close()
	for {
		files.Renew()
		wake.Send(a.manifests)
		if files.Wait(ctx, poll) == filewatch.Ended {
			return
		}
	}
}

// serve returns nil when ctx ends, or the error of a part.
func (a *Agent) serve(ctx, parts context.Context) error {
	select {
	case <-parts.Done():
		return context.Cause(parts)
	case <-ctx.Done():
		a.log.Info("accelmux stops")
		return nil
	}
}

// close ends what is left, and returns err with what went wrong. The caller has canceled
// parts, so the device plugin is already stopping. Kubelet therefore sees whole resources
// disappear, not single devices. An agent that starts again keeps its claim to the state
// directory.
func (a *Agent) close(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.opts.Timing.Stop)
	defer cancel()
	again := errors.Is(err, errOutdated)
	err = errors.Join(err, a.supervisor.Close(ctx))
	a.onDuty.Wait()
	a.serving.Wait()
	if a.role() == status.RoleActive {
		err = errors.Join(err, a.closeState(a.defines))
	}
	a.events.Close()
	err = errors.Join(err, a.files.Close(), a.runLock.Release())
	if !again {
		err = errors.Join(err, a.claim.Close())
	}
	return err
}

// closeState closes what openState opened. CDI definitions of devices that are
// not held are removed; nil keeps all.
func (a *Agent) closeState(held func(inventory.Key) bool) error {
	return errors.Join(a.cdi.Close(held), a.book.Close(), a.health.Close())
}
