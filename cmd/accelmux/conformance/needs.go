package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// ownUser is the program's user in its sandbox: the first of those that systemd gives to services while they run, of which
// the agent has its backends' (https://systemd.io/UIDS-GIDS).
const ownUser = 61184

// box returns the program's sandbox: the agent's, but without a cgroup.
func (c *check) box(paths HostPaths) sandbox.Sandbox {
	box := sandbox.Sandbox{
		Policy: sandbox.Policy{Mode: c.Sandbox}, Given: c.given, Paths: sandbox.Paths(paths), UID: ownUser,
		NoCgroup: "this check makes none",
	}
	if real, err := filepath.EvalSymlinks(c.Program); err == nil {
		box.Programs = []string{filepath.Dir(real)}
	}
	return box
}

// unrestricted starts the program without a sandbox, to compare with that, and then in it, to see whether it starts at all.
func (c *check) unrestricted(ctx context.Context) error {
	if c.Sandbox == sandbox.Off {
		c.skip("run it in its sandbox", manifestSuffices)
		return nil
	}
	err := c.reportsFreely(ctx)
	if err == nil {
		if err = c.starts(ctx); err != nil {
			c.insufficient(err.Error())
			c.Sandbox = sandbox.Off // one cause fails one rule
		}
		return nil
	}
	if errors.Is(err, errStart) {
		c.fail(handshake, "%s", err)
		return err
	}
	c.skip("not even without a sandbox it works: "+err.Error(), manifestSuffices)
	c.Sandbox = sandbox.Off
	return nil
}

// starts begins a process of the program in its sandbox, where it must accept the settings.
func (c *check) starts(ctx context.Context) error {
	s, err := c.open(ctx, "", c.box(c.HostPaths))
	if err != nil {
		return err
	}
	defer s.close()
	err = c.accepted(ctx, s, c.HostPaths)
	return err
}

// reportsFreely stores what the program reports without a sandbox.
func (c *check) reportsFreely(ctx context.Context) error {
	s, w, stop, err := c.outside(ctx)
	if err != nil {
		return err
	}
	defer stop()
	now, _ := w.newest()
	_ = c.sample(ctx, s, now, c.timing.Sample, 1) // fails without the ability
	c.freeMetrics, c.metrics = c.metrics, nil
	w.await(ctx, 2*missedBeats*w.pace, func() bool { return w.beats >= missedBeats }) // faults are known by now
	c.free, _ = w.newest()
	return nil
}

// outside starts the program without a sandbox, and waits for its inventory. The caller calls stop, unless there is an error.
func (c *check) outside(ctx context.Context) (s *session, w *stream, stop func(), err error) {
	if s, err = c.open(ctx, "", noSandbox); err != nil {
		return nil, nil, nil, err
	}
	if err = c.accepted(ctx, s, c.HostPaths); err == nil {
		w, err = c.watchListed(ctx, s, true)
	}
	if err != nil {
		s.close()
		return nil, nil, nil, err
	}
	return s, w, func() { w.stop(); s.close() }, nil
}

// comparesInventory compares an inventory in the sandbox with that without one.
func (c *check) comparesInventory(ctx context.Context, w *stream) {
	if c.Sandbox == sandbox.Off {
		return
	}
	if w.await(ctx, c.timing.Inventory, func() bool { return len(lacking(c.free, w.last)) == 0 }) {
		c.pass(manifestSuffices)
		return
	}
	now, _ := w.newest()
	c.insufficient(words(lacking(c.free, now)))
}

// lacking returns what an inventory lacks that another one has.
func lacking(other, now *backendv1.Inventory) (all []string) {
	const healthy = backendv1.HealthState_HEALTH_STATE_HEALTHY
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, d := range other.GetDevices() {
		i := slices.IndexFunc(now.GetDevices(), func(n *backendv1.Device) bool { return n.GetId() == d.GetId() })
		if i < 0 {
			add("the device %s is missing", d.GetId())
			continue
		}
		n := now.GetDevices()[i]
		if h := n.GetHealth(); d.GetHealth().GetState() == healthy && h.GetState() != healthy {
			add("the device %s is not healthy (%s: %s)", d.GetId(), h.GetCode(), h.GetMessage())
		}
		for _, name := range slices.Sorted(maps.Keys(d.GetAttributes())) {
			if n.GetAttributes()[name] == nil {
				add("the device %s has no attribute %s", d.GetId(), name)
			}
		}
	}
	for _, problem := range now.GetProblems() {
		if !slices.Contains(other.GetProblems(), problem) {
			add("it reports the problem %q", problem)
		}
	}
	return all
}

// comparesMetrics compares the metrics of the samples in the sandbox with those without one.
func (c *check) comparesMetrics() {
	if c.Sandbox == sandbox.Off {
		return
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.freeMetrics)) {
		if !c.metrics[name] {
			missing = append(missing, "the metric "+name+" is missing")
		}
	}
	if len(missing) > 0 {
		c.insufficient(words(missing))
	}
}

// insufficient fails the rule for what is so only in the sandbox.
func (c *check) insufficient(what string) {
	c.fail(manifestSuffices, "only in its sandbox: %s; its manifest must have what the program opens and calls", what)
}
