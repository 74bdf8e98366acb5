package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// beatsSoFar returns the number of heartbeats so far.
func (w *stream) beatsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beats
}

// hang starts the program, then makes every open of a file in its device trees hang.
func (c *check) hang(ctx context.Context) error {
	s, err := c.open(ctx, helperTrap, noSandbox)
	var unusable trapError
	if errors.As(err, &unusable) {
		c.skip("system calls of the program cannot be intercepted here: "+unusable.Error(), heartbeatsFromLoop)
		return nil
	}
	if err != nil {
		return c.again(err)
	}
	defer s.close()
	if err := c.begin(ctx, s, c.HostPaths); err != nil {
		return err
	}
	w, err := c.watch(ctx, s, true)
	if err != nil {
		c.fail(heartbeatsFromLoop, "%s", err)
		return nil
	}
	defer w.stop()
	if err := w.awaitInventory(ctx, c.timing.Inventory); err != nil {
		c.fail(heartbeatsFromLoop, "%s", err)
		return nil
	}
	held := s.trap.hold([]string{c.HostPaths.Sysfs, c.HostPaths.Devfs})
	var path string
	select {
	case path = <-held:
	case <-time.After(c.timing.Hang):
		c.skip(fmt.Sprintf("it opened no file below %s and %s within %s; point --sysfs or --devfs at a tree that it reads", c.HostPaths.Sysfs, c.HostPaths.Devfs, c.timing.Hang), heartbeatsFromLoop)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	before, _ := w.newest()
	for end := time.Now().Add(c.timing.Hang); time.Now().Before(end); {
		beats := w.beatsSoFar()
		silent := !w.await(ctx, missedBeats*w.pace, func() bool { return w.beats > beats || worse(before, w.last) })
		now, _ := w.newest()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case silent || worse(before, now):
			c.pass(heartbeatsFromLoop)
			return nil
		}
	}
	c.fail(heartbeatsFromLoop, "heartbeats continue, and no inventory reports a problem, while opening %s has hung for %s", path, c.timing.Hang)
	return nil
}

// worse reports whether an inventory has a new problem, or a device that is no longer healthy
// or listed.
func worse(before, now *backendv1.Inventory) bool {
	for _, problem := range now.GetProblems() {
		if !slices.Contains(before.GetProblems(), problem) {
			return true
		}
	}
	const healthy = backendv1.HealthState_HEALTH_STATE_HEALTHY
	return slices.ContainsFunc(before.GetDevices(), func(d *backendv1.Device) bool {
		return d.GetHealth().GetState() == healthy && !slices.ContainsFunc(now.GetDevices(), func(n *backendv1.Device) bool {
			return n.GetId() == d.GetId() && n.GetHealth().GetState() == healthy
		})
	})
}
