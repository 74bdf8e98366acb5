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
	w, err := c.watchListed(ctx, s, true)
	if err != nil {
		c.fail(heartbeatsFromLoop, "%s", err)
		return nil
	}
	defer w.stop()
	held := s.trap.hold([]string{c.HostPaths.Sysfs, c.HostPaths.Devfs})
	path, err := c.firstOpened(ctx, s, held)
	if err != nil {
		return err
	}
	if path == "" {
		c.skip(fmt.Sprintf("it opened no file below %s and %s within %s; point --sysfs or --devfs at a tree that it reads", c.HostPaths.Sysfs, c.HostPaths.Devfs, c.timing.Hang), heartbeatsFromLoop)
		return nil
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

// firstOpened returns the first file that the program's loop opens, which hangs from then on; "" if it opens none
// within Timing.Hang. A loop may keep its files open. So if none is opened in a third of the time, the program gets its
// settings once more, because its next inventory must follow from them. If that call does not return, the file that hangs
// may be one that the call opened, and not the loop: then it returns "".
func (c *check) firstOpened(ctx context.Context, s *session, held <-chan string) (string, error) {
	select {
	case path := <-held:
		return path, nil
	case <-time.After(c.timing.Hang / 3):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	end := time.After(c.timing.Hang - c.timing.Hang/3)
	answered := make(chan error, 1)
	go func() {
		err := c.accepted(ctx, s, c.HostPaths)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			return "", nil //nolint:nilerr // other rules report what is wrong with the call
		}
	case <-end:
		return "", nil
	}
	select {
	case path := <-held:
		return path, nil
	case <-end:
		return "", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
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
