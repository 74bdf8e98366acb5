package agent

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/wake"
)

// pipeline is what the round is run with.
type pipeline struct {
	// wake asks for another round; one pending is enough.
	wake chan struct{}
	// round is the newest; nil before the first.
	round atomic.Pointer[round.Round]
	// nodes finds missing device nodes.
	nodes round.Nodes
	// recheck is when the inventory is checked again against the host's files.
	recheck time.Time
	// netHookInstalled is set once the program is in the state directory.
	netHookInstalled bool
}

// holdersPause is how long a change of the holders may wait for its round. Holder changes are
// batched for 100 ms, because each allocation causes one. They only matter for definitions to
// remove and resets to begin.
const holdersPause = 100 * time.Millisecond

// loop runs the pipeline whenever something changed, until ctx ends. The error is for a first
// plan whose CDI specs another agent has.
func (a *Agent) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due time.Time
	changed := a.book.Changed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			due = earliest(due, time.Now().Add(holdersPause))
			timer.Reset(max(time.Until(due), 0))
			changed = nil // until then further changes wait in the channel
			continue
		case <-a.inventory.Changed():
		case <-a.wake:
		case <-a.cdi.Changed():
		case <-timer.C:
		}
		changed = a.book.Changed()
		var err error
		if due, err = a.reconcile(); err != nil {
			return err
		}
		if !due.IsZero() {
			timer.Reset(max(time.Until(due), 0))
		}
	}
}

// earliest returns the earlier of two times, where zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// poke asks for another round.
func (a *Agent) poke() { wake.Send(a.wake) }

// reconcile is one round: from the newest snapshot to what kubelet sees. It
// returns when the next one is due though nothing changes; zero means never. The error is
// that of advance.
func (a *Agent) reconcile() (time.Time, error) {
	next, err := a.advance()
	if err != nil {
		return time.Time{}, err
	}
	statuses, current := a.supervisor.Status(), a.plans.InForce()
	a.plans.Accepted(statuses)
	a.journal.Backends(statuses)
	a.telemetry.Follow(current.Profile, statuses)
	before, reconfigured := a.round.Load(), a.plans.Reconfigured()
	if before == nil && len(reconfigured) > 0 {
		return next, nil // what these backends listed by the settings of the plan in force is not known
	}
	now := time.Now()
	if !now.Before(a.recheck) {
		a.inventory.Recheck()
		a.recheck = now.Add(a.opts.Timing.HostFiles)
	}
	next = earliest(next, a.recheck)
	all := round.BeforeReconfiguration(a.inventory.Snapshot(), reconfigured, before)
	a.health.SetPolicies(current.HealthPolicies())
	judged := a.health.Judge(all)
	snapshot := current.Part(all)
	held := a.book.Allocations()
	cordoned, unknown := round.Cordoned(snapshot, a.node.Cordoned())
	removed := round.Removed(current.Profile, snapshot, held, before, a.earlier.Devices)
	table := current.Mapper.Map(snapshot, round.HeldResources(current.Profile, snapshot, held))
	table = round.WithRemoved(current.Profile, table, held, removed)
	devices := round.Injected(table)
	a.installNetHook(devices)
	names := a.cdi.Publish(devices, a.defines)
	missing, again := a.nodes.Missing(snapshot, round.Plain(table), now)
	next = earliest(next, again)
	unusable := round.Unusable(devices, names, missing, round.Unresettable(current.Profile, snapshot, table), before, now)
	table = round.WithVerdicts(table, judged, a.lifecycle.Faults(judged), cordoned, round.Allocated(current.Profile, table, held), unusable)
	plugin, waiting := round.ForDevicePlugin(table, held, a.known)
	table.Problems = slices.Concat(table.Problems, waiting, unknown)
	v := round.New(round.Round{
		Profile: current.Profile, Snapshot: snapshot, Health: judged, Table: table, ForKubelet: plugin, Names: names, Removed: removed, Unusable: unusable,
	})
	a.round.Store(v)
	a.earlier.Store(v, held) // before kubelet gets the devices
	a.plugin.Publish(plugin, names)
	a.dra.Publish(v)
	a.journal.Round(v)
	next = earliest(next, judged.Next)
	next = earliest(next, table.RetryAt)
	next = earliest(next, names.RetryAt())
	next = earliest(next, a.features.Update(v, now))
	a.lifecycle.Update()
	return next, nil
}

// advance takes a switch to another plan as far as it goes now, and returns when it is due
// again though nothing changes. The error is for a first plan whose CDI specs another agent
// has.
func (a *Agent) advance() (time.Time, error) {
	before := a.plans.InForce()
	changed, retry := a.plans.Advance(time.Now())
	if changed && before.Idle() {
		return retry, a.ownSpecs(a.plans.InForce())
	}
	return retry, nil
}

// ownSpecs locks the CDI specs of the first plan. An agent that serves nothing yet ends if
// another agent has them: if two agents advertised the devices, kubelet would choose this one,
// which cannot define them.
func (a *Agent) ownSpecs(first *profile.Plan) error {
	_, err := patiently(a.log, func() (struct{}, error) { return struct{}{}, a.cdi.Own(first.Defined()) })
	if err != nil {
		return fmt.Errorf("lock the CDI specs of profile %s: %w", first.Profile.Name, err)
	}
	return nil
}
