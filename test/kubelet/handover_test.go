package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// beside prepares an agent that takes turns with the node's others. Its log is
// shown if the test fails.
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

// wantRole waits until the agent has a role, and is ready if it is the active one alone. It
// returns how long that took.
func (n *node) wantRole(a *agent.Agent, role string) time.Duration {
	n.Helper()
	return n.eventually("the agent is "+role, func() bool {
		status, err := a.Status(n.Context())
		return err == nil && status.Role == role && len(status.NotReady) == 0
	})
}

// startTurns is a node with an agent that takes turns, with four units.
func startTurns(t *testing.T) *node {
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

// TestTakeOver verifies that an agent's newer version takes over, and the older
// one takes over back when the newer one is told to end, again and again, and
// kubelet never misses a unit; a pod keeps its devices, and nobody else gets them.
func TestTakeOver(t *testing.T) {
	n := startTurns(t)
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	n.startContainer(pod)
	before := n.held(pod, gpu)
	record := n.kubelet.Record(gpu, 10*time.Millisecond)
	var there, back []time.Duration
	for range 5 {
		second := n.beside("second")
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		there = append(there, n.wantRole(second, "active"))
		n.wantRole(n.agent, "standby")
		n.wantCounts(gpu, 4, 4)
		if _, err := second.Stop(); err != nil {
			t.Fatal(err)
		}
		back = append(back, n.wantRole(n.agent, "active"))
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
	slices.Sort(there)
	slices.Sort(back)
	t.Logf("%d samples; taken over in %v, back in %v (medians of 5)", samples, there[2].Round(time.Millisecond), back[2].Round(time.Millisecond))
}

// TestActiveAgentDies verifies that the agent that stands by takes over from one that was
// killed: the devices are unhealthy for a moment, with their capacity kept, and whose they
// are is not forgotten.
func TestActiveAgentDies(t *testing.T) {
	n := startTurns(t)
	n.specsHeld = true
	before := n.held(n.admit("pod", gpu, 2), gpu)
	second := n.beside("second")
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	n.wantRole(second, "active")
	n.wantRole(n.agent, "standby")
	n.killBeside(second, n.agent)
	// As kubelet does with the volume of a pod that is gone.
	if err := os.RemoveAll(second.RunDir()); err != nil {
		t.Fatal(err)
	}
	other := n.held(n.admit("other", gpu, 2), gpu)
	if slices.ContainsFunc(other, func(id string) bool { return slices.Contains(before, id) }) {
		t.Errorf("two pods have %v and %v", before, other)
	}
}

// TestKillsInAHandOver verifies that whichever agent is killed in the middle of a
// hand-over, the other one has kubelet whole again at once: every device is
// healthy, a pod keeps what it has and nobody else gets it, and of the sockets of the
// killed one none remains.
func TestKillsInAHandOver(t *testing.T) {
	for _, c := range []struct {
		moment string
		older  bool // prints the words, not the newer one
		words  []string
	}{
		{"before the newer one registers", false, []string{"the backends are started, then this one takes over"}},
		{"while the older one lets go", true, []string{"another agent takes over"}},
		{"when the newer one has registered", false, []string{"kubelet takes the devices", gpu}},
	} {
		for _, victim := range []string{"older", "newer"} {
			t.Run(c.moment+", of the "+victim, func(t *testing.T) {
				n := startTurns(t)
				n.specsHeld = true
				pod := n.admit("pod", gpu, 2)
				n.startContainer(pod)
				before, healthy := n.held(pod, gpu), n.kubelet.Healthy(gpu)
				second := n.beside("second")
				killed, stays := n.agent, second
				if victim == "newer" {
					killed, stays = second, n.agent
				}
				prints := second
				if c.older {
					prints = n.agent
				}
				now := prints.Printed(c.words...)
				if err := second.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-now:
				case <-n.soon().Done():
					t.Fatalf("the log has no line with %q", c.words)
				}
				n.killBeside(killed, stays)
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

// killBeside kills one agent, and waits until the other one is active, has the only socket,
// and kubelet all four units of it, which must have needed no second attempt.
func (n *node) killBeside(killed, stays *agent.Agent) {
	n.Helper()
	before := len(stays.Log())
	record, began := n.kubelet.Record(gpu, time.Millisecond), time.Now()
	if err := killed.Kill(); err != nil {
		n.Fatal(err)
	}
	n.wantRole(stays, "active")
	// The other one may have looked for sockets before the killed one's last was dead: it
	// looks again after a while.
	n.eventually("the killed agent's sockets are gone", func() bool {
		sockets, err := filepath.Glob(filepath.Join(n.kubelet.PluginDir(), "accelmux-*"))
		return err == nil && len(sockets) == 1
	})
	took := time.Since(began)
	n.wantCounts(gpu, 4, 4)
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

// TestKubeletRestartsWhileOneStandsBy verifies that only the active agent
// registers with a kubelet that was restarted.
func TestKubeletRestartsWhileOneStandsBy(t *testing.T) {
	n := startTurns(t)
	n.specsHeld = true
	n.startContainer(n.admit("pod", gpu, 1))
	second := n.beside("second")
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	n.wantRole(second, "active")
	n.wantRole(n.agent, "standby")
	for range 3 {
		n.restartKubelet(gpu, 4)
	}
	status, err := n.agent.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Role != "standby" || len(status.Resources) > 0 {
		t.Errorf("the agent that stands by is %s and serves %v", status.Role, status.Resources)
	}
}
