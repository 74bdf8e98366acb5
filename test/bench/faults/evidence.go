package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/hostile"
)

// What is measured is what the table says only if the misdeed took place: the backend has
// noted that it began, and the agent reports that something is wrong with it. A section
// with a misdeed that did not is an error.

// patience is how long a misdeed may take to begin: the release of a unit takes longest.
const patience = 90 * time.Second

// pollEvery is how often the agent is asked.
const pollEvery = 20 * time.Millisecond

// began reports whether the misdeed has begun.
func (c *scene) began() bool {
	_, err := os.Stat(c.mark())
	return err == nil
}

// mark is the file of [hostile.BegunEnv].
func (c *scene) mark() string { return c.file + ".begun" }

// shown waits until the agent reports what is wrong; a start of a container that fails is
// seen by its caller.
func (c *scene) shown() error {
	if c.misdeed.Call == "Prepare" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	shows, err := rig.Poll(rig.Patience, pollEvery, func() (bool, error) {
		report, err := c.client.Report(ctx)
		if err != nil {
			return false, err
		}
		return wrong(report)
	})
	if err != nil || !shows {
		return errors.Join(fmt.Errorf("the agent does not report it within %v", rig.Patience), err)
	}
	return nil
}

// wrong reports whether something is wrong with the backend.
func wrong(report status.Report) (bool, error) {
	for _, b := range report.Backends {
		if b.Name != "bad" {
			continue
		}
		problem := slices.ContainsFunc(report.Problems, func(p status.Problem) bool { return p.Backend == b.Name })
		// Parents and IDs that are another's are no problem of the backend's own.
		return b.LastError != "" || problem || b.Devices != hostile.Devices, nil
	}
	return false, errors.New("the agent does not list the backend")
}

// released has a container hold one of the backend's units and end, once the agent knows
// whose container it is: then the unit is released half a minute later, by kubelet's list
// of pods, which is believed if there is a pod in it.
func (c *scene) released(ctx context.Context) error {
	if _, err := c.Kubelet.Allocate(ctx, "another", "main", resource, 1); err != nil {
		return err
	}
	allocation, err := c.Kubelet.Allocate(ctx, pod, "main", bad, 1)
	if err != nil {
		return err
	}
	defer c.Kubelet.Free(pod)
	known, err := rig.Poll(rig.Patience, pollEvery, func() (bool, error) {
		devices, err := c.client.Devices(ctx)
		return slices.ContainsFunc(devices, func(d listing.Device) bool {
			return d.ID == allocation.Devices[0] && slices.ContainsFunc(d.Holders, func(h listing.Holder) bool { return h.Pod == pod })
		}), err
	})
	if err != nil || !known {
		return errors.Join(fmt.Errorf("the agent does not know within %v that a container holds %s", rig.Patience, allocation.Devices[0]), err)
	}
	return nil
}
