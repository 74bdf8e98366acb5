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

// A resource whose name is made of an attribute comes with the first device that
// has the value, stays registered when the last one is gone, and is filled again
// when one comes back. A container that holds a device which changed keeps it, and
// nobody gets the device under its new name before.
func TestNamesFollowAttributes(t *testing.T) {
	t.Parallel()
	n := startNamed(t)
	id := n.allocate("pod", oneMode, 1)[0]
	n.mark(oneMode)
	n.scenario("devices: {" + id + ": {attributes: {mode: 2g}}}")
	n.wantCounts(otherMode, 1, 0)
	n.wantCounts(oneMode, 3, 3)
	n.wantNoDip(oneMode, 3)
	n.wantProblem(id, "held-elsewhere", oneMode)
	n.scenario(allOther)
	n.wantCounts(otherMode, 4, 3)
	n.wantCounts(oneMode, 0, 0)
	if err := n.startContainer("pod"); err != nil {
		t.Errorf("the container that holds %s does not start again: %v", id, err)
	}
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 })
	if r := n.resource(oneMode); r.State != "serving" || r.Units != 0 || r.Allocated != 1 || r.Injection != "auto" {
		t.Errorf("%s is %+v in status; want it to be served without units, one of them held", oneMode, r)
	}
	n.wantHeldBy(id, "pod")

	// With more than one device there is a choice, which is told by registering anew.
	n.eventually("kubelet may ask for a choice", func() bool { return n.kubelet.State().Resources[otherMode].PreferredAllocation })
	registered := n.kubelet.State().Counts.Registered
	n.kubelet.Free("pod")
	n.wantCounts(otherMode, 4, 4)
	n.scenario("")
	n.wantCounts(oneMode, 4, 4)
	n.wantCounts(otherMode, 0, 0)
	if now := n.kubelet.State().Counts.Registered; now != registered {
		t.Errorf("%d registrations, want the %d before the devices came back", now, registered)
	}
	n.restartKubelet()
	n.wantCounts(oneMode, 4, 4)
	n.wantCounts(otherMode, 0, 0)
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
