package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// restart starts the program below a parent, compares the devices with those of before, and
// kills the parent.
func (c *check) restart(ctx context.Context) error {
	s, err := c.open(ctx, helperParent, noSandbox)
	if err != nil {
		return c.again(err)
	}
	defer s.close()
	child, err := s.child()
	if err != nil {
		return fmt.Errorf("start the program below a parent: %w", err)
	}
	defer child.end()
	if err := c.begin(ctx, s, c.HostPaths); err != nil {
		return err
	}
	before := slices.Sorted(slices.Values(c.order))
	if c.failed(manifestSuffices) { // this start is without a sandbox
		before = slices.Sorted(slices.Values(ids(c.free)))
	}
	w, err := c.watch(ctx, s, false)
	if err != nil {
		c.fail(firstInventory, "after a restart: %s", err)
		return stopError{err}
	}
	same := func() bool { return w.took > 0 && slices.Equal(slices.Sorted(slices.Values(ids(w.last))), before) }
	if w.await(ctx, c.timing.Inventory, same) {
		c.pass(stableIDs)
	} else {
		now, _ := w.newest()
		c.fail(stableIDs, "it lists %s after a restart, and listed %s before", words(ids(now)), words(before))
	}
	w.expectEnd()
	s.orphan()
	if child.ended(c.timing.Orphan) {
		c.pass(parentLost)
	} else {
		c.fail(parentLost, "it still runs %s after its parent was killed", c.timing.Orphan)
	}
	c.judgeOutput(s)
	return nil
}

// again fails the handshake rule for an error of a later start.
func (c *check) again(err error) error {
	if errors.Is(err, errStart) {
		c.fail(handshake, "at a later start: %s", err)
	}
	return err
}

// begin calls Configure of a later start.
func (c *check) begin(ctx context.Context, s *session, paths HostPaths) error {
	if err := c.accepted(ctx, s, paths); err != nil {
		c.fail(configure, "at a later start: %s", err)
		return stopError{err}
	}
	return nil
}

// accepted calls Configure. Refused settings are an error.
func (c *check) accepted(ctx context.Context, s *session, paths HostPaths) error {
	answer, err := s.configure(ctx, c.Settings, paths, c.timing.Configure, nil)
	if err == nil && len(answer.GetErrors()) > 0 {
		err = fmt.Errorf("it refuses the settings: %s", fieldErrors(answer))
	}
	return err
}

// unseen checks the program with host paths without hardware.
func (c *check) unseen(ctx context.Context) error {
	paths, err := c.emptyPaths()
	if err != nil {
		return fmt.Errorf("make directories without hardware: %w", err)
	}
	s, err := c.open(ctx, "", c.box(paths))
	if err != nil {
		return c.again(err)
	}
	defer s.close()
	answer, err := s.configure(ctx, c.Settings, paths, c.timing.Configure, nil)
	if err != nil {
		c.fail(withoutHardware, "%s", err)
		return nil
	}
	c.identifies(answer)
	if len(answer.GetErrors()) > 0 {
		c.skip("the backend refuses the settings without hardware: "+fieldErrors(answer), withoutHardware)
		return nil
	}
	w, err := c.watchListed(ctx, s, true)
	if err != nil {
		c.fail(withoutHardware, "%s", err)
		return nil
	}
	defer w.stop()
	// Heartbeats show that its loop continues.
	beats := w.beatsSoFar()
	if !w.await(ctx, 2*c.timing.Silence, func() bool { return w.beats > beats }) {
		c.fail(withoutHardware, "no heartbeat came after the inventory")
		return nil
	}
	c.pass(withoutHardware)
	return nil
}
