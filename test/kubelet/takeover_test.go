package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestKillsInATakeover verifies that kubelet is whole again at once, whichever agent is
// killed in the middle of a takeover, with the newer agent or, if that is the one, with a
// third: every device is healthy, a pod keeps what it has and no other pod gets it, and of the
// sockets of the killed one none remains.
func TestKillsInATakeover(t *testing.T) {
	for _, c := range []struct {
		moment string
		older  bool // prints the words, not the newer one
		words  []string
	}{
		{"while the older one finishes", true, []string{"another agent takes over"}},
		{"when the newer one has registered", false, []string{"kubelet takes the devices", gpu}},
	} {
		for _, victim := range []string{"older", "newer"} {
			t.Run(c.moment+", of the "+victim, func(t *testing.T) {
				n := startFirst(t)
				pod := n.admit("pod", gpu, 2)
				n.startContainer(pod)
				before, healthy := n.held(pod, gpu), n.kubelet.Healthy(gpu)
				newer := n.startStandby("second")
				older, prints := n.agent, newer
				killed, stays := older, newer
				if victim == "newer" {
					killed, stays = newer, n.beside("third")
				}
				if c.older {
					prints = older
				}
				now := prints.Printed(c.words...)
				if err := older.Terminate(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-now:
				case <-n.soon().Done():
					t.Fatalf("the log has no line with %q", c.words)
				}
				n.killBeside(killed, stays)
				n.eventually("the older agent has ended", func() bool { return !older.Running() })
				n.agent = stays
				if now := n.kubelet.Healthy(gpu); !slices.Equal(now, healthy) {
					t.Errorf("kubelet has %v healthy, want %v", now, healthy)
				}
				// As kubelet does with the volume of a pod that is gone.
				if err := os.RemoveAll(killed.RunDir()); err != nil {
					t.Fatal(err)
				}
				if kept := n.held(pod, gpu); !slices.Equal(kept, before) {
					t.Errorf("the pod has %v, want %v as before", kept, before)
				}
				n.wantInjected(n.cdiNames(n.startContainer(pod)), before)
				other := n.held(n.admit("other", gpu, 2), gpu)
				if slices.ContainsFunc(other, func(id string) bool { return slices.Contains(before, id) }) {
					t.Errorf("two pods have %v and %v", before, other)
				}
			})
		}
	}
}

// late are words of the log of an agent that kubelet is whole with, but not at once: it
// waited for something that did not come, or has failed before.
var late = []string{"kubelet did not ask for its devices", "its successor failed", "did not register", "cannot connect to kubelet", "backend failed"}

// broke is one more of these words, with a kubelet for which the end of the other agent's
// stream is not that of this one's.
const broke = "its stream broke and kubelet did not open another"

// killBeside kills one agent, starts the other one if it does not run, and waits until that
// is active, has the only socket, and kubelet all four units of it, which must have needed no
// second attempt.
func (n *node) killBeside(killed, stays *agent.Agent) {
	n.Helper()
	before := len(stays.Log())
	record, began := n.kubelet.Record(gpu, time.Millisecond), time.Now()
	if err := killed.Kill(); err != nil {
		n.Fatal(err)
	}
	if !stays.Running() {
		if err := stays.Start(); err != nil {
			n.Fatal(err)
		}
	}
	n.wantRole(stays, status.RoleActive)
	// The other one may have looked for sockets before the killed one's last was dead: it
	// looks again after a while.
	n.eventually("the killed agent's sockets are gone", func() bool {
		sockets, err := filepath.Glob(filepath.Join(n.kubelet.PluginDir(), "accelmux-*"))
		return err == nil && len(sockets) == 1
	})
	took := time.Since(began)
	n.wantCounts(gpu, 4, 4)
	if !realkubelet.StreamsApart.Can(n.kubelet.Release()) {
		n.wantLasting(gpu, 4)
	}
	_, changes := record.Stop()
	last := changes[len(changes)-1]
	if last.Counts.Allocatable != 4 {
		n.Errorf("kubelet's counts after the kill: %v; want all 4 in the end", changes)
	}
	all := late
	if realkubelet.StreamsApart.Can(n.kubelet.Release()) {
		all = append(slices.Clone(late), broke)
	}
	for _, words := range all {
		if log := stays.Log()[before:]; strings.Contains(log, words) {
			n.Errorf("the agent that stays was not at once what kubelet needs (%q), kubelet's counts after the kill: %v", words, changes)
		}
	}
	for _, c := range changes {
		if c.Counts.Capacity != 4 {
			n.Errorf("%v after the kill: %v", c.After, c.Counts)
		}
	}
	n.Logf("kubelet's counts after the kill: %v; looked at for %v", changes, took.Round(time.Millisecond))
}

// wantLasting waits until kubelet has so many devices for twice the time after which an agent
// registers again because its stream broke.
func (n *node) wantLasting(resource string, allocatable int64) {
	n.Helper()
	since := time.Now()
	n.eventually("kubelet keeps the devices", func() bool {
		if n.kubelet.Counts(resource).Allocatable != allocatable {
			since = time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
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
