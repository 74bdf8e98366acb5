package node

import (
	"slices"
	"strings"
	"testing"
)

// Verifies that claims outlive restarts of the agent and of kubelet: their pods are left alone, a
// restart of their containers finds the devices, and a new pod gets others.
func TestClaimsOutliveRestarts(t *testing.T) {
	n := begin(t)
	n.installClaims()
	pod := n.startClaiming("one", 2)
	held := n.wantClaimed("one")
	for _, restart := range []struct {
		name string
		do   func()
	}{
		{"agent killed", func() { n.kill("accelmux") }},
		{"agent deleted", func() { n.deletePod(n.agentPod()) }},
		{"kubelet stopped", func() { n.restartKubelet("stop") }},
		{"kubelet killed", func() { n.restartKubelet("kill") }},
	} {
		t.Run(restart.name, func(t *testing.T) {
			n := n.with(t)
			restart.do()
			name := strings.ReplaceAll(restart.name, " ", "-")
			n.startClaiming(name, 6)
			if got := n.wantClaimed(name); len(got) != 6 || slices.ContainsFunc(got, func(id string) bool { return slices.Contains(held, id) }) {
				t.Errorf("pod one has %v, and the new pod got %v", held, got)
			}
			n.delete(name)
		})
	}
	n.wantUntouched(pod)
	n.restartContainer("one")
	if now := n.wantClaimed("one"); !slices.Equal(now, held) {
		t.Errorf("after the restart of its container the pod has %v, and had %v", now, held)
	}
	n.delete("one")
	n.wantNoRecord()
}
