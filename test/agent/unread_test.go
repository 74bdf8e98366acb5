package agent

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A device that its backend cannot look at, such as while its driver is away, stays in kubelet's list, unhealthy with the reason:
// also when the backend, and then the agent, is another process, of which neither has ever seen the device, and while a pod has
// one. All are back when the backend has looked.
func TestDevicesThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, quickUsage)
	held := n.allocate("pod", gpu, 1)[0]
	n.scenario(`devices: {mock-1: {unread: "0000:01:00.0 does not answer"}}`)
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-1", "unread")
	n.wantProblem("mock-1", "unread", "could not look at it", "0000:01:00.0 does not answer")
	away := func() {
		t.Helper()
		n.wantCounts(gpu, 4, 0)
		n.wantFault(held, "unread")
		n.wantProblem("unread", "the driver is away")
	}
	n.scenario(`unread: the driver is away`)
	away()
	before := n.backend("mock")
	n.kill(before.PID, unix.SIGKILL)
	n.eventually("the backend is back", func() bool { return n.backend("mock").Generation > before.Generation })
	away()
	for range 2 {
		n.stopAgent()
		n.startAgent()
		away()
	}
	n.wantResolves(held)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	n.scenario(`devices: {"mock-*": {unplugged: true}}`)
	n.wantCounts(gpu, 1, 0)
	n.wantFault(held, "device-gone")
}

// A device that was removed while a pod has it stays in kubelet's list over a restart of the agent, also of one that finds it
// removed: an empty list would tell kubelet that the pod has nothing.
func TestRemovedDeviceOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, quickUsage)
	held := n.allocate("pod", gpu, 1)[0]
	n.eventually("the allocation is on disk", func() bool { return n.saved("usage", held) })
	n.stopAgent()
	n.scenario(`devices: {"mock-*": {unplugged: true}}`)
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 1, 0)
	n.wantFault(held, "device-gone")
	n.kubelet.Free("pod")
	n.wantCounts(gpu, 0, 0)
}
