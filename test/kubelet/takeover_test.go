package kubelet

import (
	"slices"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// beside prepares another agent with --take-over on the node. Its log is shown if the test
// fails.
func (n *node) beside(name string) *agent.Agent {
	n.Helper()
	a, err := n.agent.Beside(name)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if a.Running() {
			if _, err := a.Stop(); err != nil {
				n.Errorf("agent %s: %v", name, err)
			}
		}
		if n.Failed() {
			n.Logf("the log of agent %s:\n%s", name, a.Log())
		}
	})
	return a
}

// wantRole waits until the agent has a role, and is ready. It returns how long that took.
func (n *node) wantRole(a *agent.Agent, role status.Role) time.Duration {
	n.Helper()
	return n.eventually("the agent is "+string(role), func() bool {
		report, err := a.Status(n.Context())
		return err == nil && report.Role == role && len(report.NotReady) == 0
	})
}

// startFirst is a node with an agent with --take-over, with four units.
func startFirst(t *testing.T) *node {
	t.Helper()
	n := start(t, mock{Count: 4}, 4)
	first := n.beside("first")
	if _, err := n.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	n.agent = first
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
	return n
}

// startStandby starts a newer agent and waits until it is ready to take over.
func (n *node) startStandby(name string) *agent.Agent {
	n.Helper()
	newer := n.beside(name)
	if err := newer.Start(); err != nil {
		n.Fatal(err)
	}
	n.wantRole(newer, status.RoleStandby)
	return newer
}

// TestTakeOver verifies that a newer agent takes over from an older one that is told to
// stop, again and again, and kubelet never misses a unit; a pod keeps its devices, and no
// other pod gets them.
func TestTakeOver(t *testing.T) {
	n := startFirst(t)
	pod := n.admit("pod", gpu, 2)
	n.startContainer(pod)
	before := n.held(pod, gpu)
	record := n.kubelet.Record(gpu, 10*time.Millisecond)
	var ready, ended []time.Duration
	for _, name := range []string{"2", "3", "4", "5", "6"} {
		began := time.Now()
		newer := n.startStandby(name)
		ready = append(ready, time.Since(began))
		took, err := n.agent.Stop()
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, took)
		n.wantRole(newer, status.RoleActive)
		n.agent = newer
		n.wantCounts(gpu, 4, 4)
	}
	other := n.held(n.admit("other", gpu, 2), gpu)
	samples, changes := record.Stop()
	t.Run("without a dip", func(t *testing.T) {
		realkubelet.StreamsApart.Need(t, n.kubelet.Release())
		if len(changes) != 1 {
			t.Errorf("kubelet's counts changed: %v", changes)
		}
	})
	for _, c := range changes {
		if c.Counts.Capacity != 4 {
			t.Errorf("after %v: %v", c.After, c.Counts)
		}
	}
	if slices.ContainsFunc(other, func(id string) bool { return slices.Contains(before, id) }) {
		t.Errorf("two pods have %v and %v", before, other)
	}
	n.wantInjected(n.cdiNames(n.startContainer(pod)), before)
	slices.Sort(ready)
	slices.Sort(ended)
	t.Logf("%d samples; a newer agent is ready after %v, the older one ends after %v (medians of 5)", samples, ready[2].Round(time.Millisecond), ended[2].Round(time.Millisecond))
}

// TestKubeletRestartsBesideStandby verifies that only the active agent registers with a
// kubelet that was restarted.
func TestKubeletRestartsBesideStandby(t *testing.T) {
	n := startFirst(t)
	n.startContainer(n.admit("pod", gpu, 1))
	newer := n.startStandby("second")
	for range 3 {
		n.restartKubelet(gpu, 4)
	}
	report, err := newer.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Role != status.RoleStandby || len(report.Resources) > 0 {
		t.Errorf("the agent on standby is %s and serves %v", report.Role, report.Resources)
	}
}
