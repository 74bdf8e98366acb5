package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// stopLimit bounds how long the backends may take to end: SIGTERM must leave
// nothing behind within 5 s.
const stopLimit = 3 * time.Second

// Run runs the agent until ctx ends, and then takes everything down: sockets,
// backend processes, CDI definitions that nobody holds. It returns nil when it
// was told to stop, and the first error that made it stop otherwise.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	part := func(name string, run func(context.Context) error) {
		a.running.Go(func() {
			err := run(ctx)
			switch {
			case err == nil:
			case ctx.Err() != nil:
				a.log.Warn("a part of the agent did not end well", "part", name, "error", err)
			default:
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	a.log.Info("accelmux starts", "version", status.Version, "node", a.opts.NodeName,
		"path", a.opts.ConfigPath, "profile", a.plans.inForce().profile.Name)
	watcher := config.NewWatcher(a.opts.ConfigPath, config.Options{Known: a.file, Log: a.log})
	a.running.Go(func() { watcher.Run(ctx) })
	part("follow the configuration", func(ctx context.Context) error { return a.follow(ctx, watcher.Events()) })
	part("keep the configuration", a.keeper.Run)
	part("watch usage", a.book.Run)
	part("follow releases", a.followReleases)
	part("watch the CDI directory", a.cdi.Run)
	part("serve kubelet", a.plugin.Run)
	part("serve status", status.NewServer(a.opts.StateDir, a, a.log).Run)
	if a.endpoint != nil {
		part("serve metrics", a.endpoint.Run)
	}
	if a.selection != nil {
		part("watch the node's labels", a.selection.Run)
	}
	if a.events != nil {
		part("write Events", a.events.Run)
	}
	if first := a.plans.inForce(); !first.idle() {
		a.applied(first)
	}
	a.supervisor.Apply(a.plans.specs())
	a.running.Go(func() { a.loop(ctx) })

	<-ctx.Done()
	a.log.Info("accelmux stops")
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, a.close())
}

// close ends what Run started. The device plugin and everything else that ends
// with Run's context is on its way out already, so kubelet sees the resources go
// as a whole, not device by device.
func (a *Agent) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := a.supervisor.Close(ctx)
	a.running.Wait()
	return errors.Join(err, a.cdi.Close(a.book.Held), a.book.Close(), a.health.Close(), a.unlock())
}

// follow takes on each new configuration, or notes why not, and follows the
// node's labels.
func (a *Agent) follow(ctx context.Context, files <-chan config.Event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.selection.Changed():
			a.choose()
		case event, ok := <-files:
			if !ok {
				return nil
			}
			a.take(event)
		}
	}
}

// statuses are the supervisor's, by backend.
func (a *Agent) statuses() map[string]supervisor.Status {
	statuses := map[string]supervisor.Status{}
	for _, s := range a.supervisor.Status() {
		statuses[s.Name] = s
	}
	return statuses
}

// wire is what backends are told.
func (h HostPaths) wire() *backendv1.HostPaths {
	return &backendv1.HostPaths{Sysfs: h.Sysfs, Devfs: h.Devfs, Procfs: h.Procfs}
}
