package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
)

// Rule 1: a dead device costs one device; a dead backend costs, after its holdover, its own
// devices and no others; they come back with it.
func TestDeadBackendCostsItsOwnDevices(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, twoBackends, func(o *agent.Options) { o.Timing.Supervisor.Failures = 1000 }) // no quarantine here
	n.wantCounts(fpga, 2, 2)
	n.mark(fpga)
	n.scenario(`devices: {mock-1: {fault: {code: off-the-bus, recovery: self}}}`)
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-1", "off-the-bus")
	n.scenario(`crash: {repeat: true}`)
	n.wantCounts(gpu, 4, 0)
	n.wantFault("mock-0", "backend-lost")
	n.wantNoDip(fpga, 2)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
}

// Rule 2: a fault that needs more than time sticks: over the backend's death, kubelet's restart
// and the agent's own, although the hardware says no more of it. Rule 3: a new boot clears it.
func TestFaultSticksUntilBoot(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-2: {fault: {code: xid-79, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)

	n.scenario("")
	before := n.backend("mock")
	n.kill(before.PID, unix.SIGKILL)
	n.eventually("the backend is back", func() bool { return n.backend("mock").Generation > before.Generation })
	n.wantFault("mock-2", "xid-79")
	n.wantCounts(gpu, 4, 3)

	n.restartKubelet()
	n.wantCounts(gpu, 4, 3)

	n.stopAgent()
	n.startAgent()
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-2", "xid-79")

	n.stopAgent()
	n.boot(secondBoot)
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
}

// Rule 4: a device is not reset while another of its reset group is allocated; it is as
// soon as the holder is gone. Until then no device of the group is given to another
// container.
func TestHeldGroupIsNotReset(t *testing.T) {
	t.Parallel()
	n := startNode(t, 3, strings.Replace(oneBackend, "count: 4, numaNodes: 2", "id: card, partitions: {count: 3}", 1), quickUsage)
	held := n.allocate("pod", gpu, 1)
	others := slices.DeleteFunc([]string{"card-p0", "card-p1", "card-p2"}, func(id string) bool { return slices.Contains(held, id) })
	n.scenario(fmt.Sprintf(`devices: {%s: {fault: {code: stuck, recovery: reset}}}`, others[0]))
	n.wantProblem(others[0], "stuck", "waits until", held[0])
	n.wantFault(others[1], "reset-pending")
	n.wantCounts(gpu, 3, 0)
	if n.logged("reset done") || n.logged("reset failed") {
		t.Error("the group was reset although a partition is allocated")
	}
	n.kubelet.Free("pod")
	n.wantCounts(gpu, 3, 3)
	if !n.logged("reset done") {
		t.Error("the device recovered without a reset")
	}
}
