package agent

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/status"
)

// named is oneBackend with a resource for each mode of its devices.
var named = strings.NewReplacer(
	"{name: example.com/gpu}", "{name: 'example.com/mode-{mode}'}",
	"count: 4,", "count: 4, attributes: {mode: 1g+me},",
).Replace(oneBackend)

const (
	oneMode   = "example.com/mode-1g.me"
	otherMode = "example.com/mode-2g"
	// allOther puts all devices into the other mode.
	allOther = "devices: {'mock-*': {attributes: {mode: 2g}}}"
)

// startNamed is a node with four devices of oneMode.
func startNamed(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(named)
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(oneMode, 4, 4)
	return n
}

func (n *node) resource(name string) status.Resource {
	for _, r := range n.agent.Report().Resources {
		if r.Name == name {
			return r
		}
	}
	return status.Resource{}
}

func (n *node) wantHeldBy(id, pod string) {
	n.Helper()
	n.eventually(id+" is held by "+pod, func() bool {
		holders := n.device(id).Holders
		return len(holders) == 1 && holders[0].Pod == pod
	})
}

// What a container holds is registered under its name also by a later agent, that
// never saw a device make it: without that, kubelet would refuse to start the
// container again.
func TestHeldNameOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	n := startNamed(t)
	n.wantHeldBy(n.allocate("pod", oneMode, 1)[0], "pod")
	n.scenario(allOther)
	n.wantCounts(otherMode, 4, 3)
	n.stopAgent()
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(otherMode, 4, 3)
	n.wantCounts(oneMode, 0, 0)
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 })
	n.kubelet.Free("pod")
	n.wantCounts(otherMode, 4, 4)
	n.stopAgent()
	n.startAgentWith(options)
	n.wantCounts(otherMode, 4, 4)
	if n.resource(oneMode).Name != "" {
		t.Errorf("%s is there, though nobody has it", oneMode)
	}
}
