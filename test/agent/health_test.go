package agent

import (
	"fmt"
	"os"
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

// A device is reset when its holder is gone, and no other gets it before that worked: neither one to
// which kubelet gives it before the agent can know that the first is gone, nor after a restart of the
// agent.
func TestResetAfterUse(t *testing.T) {
	t.Parallel()
	n := startNode(t, 1, strings.NewReplacer("count: 4, numaNodes: 2", "count: 1, hooks: [release], callLog: DIR/calls", "{name: example.com/gpu}", "{name: example.com/gpu, reset: afterUse}").Replace(oneBackend),
		quickUsage)
	calls := func() (all []string) {
		text, err := os.ReadFile(n.path("calls"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, strings.Fields(line)[0])
		}
		return all
	}
	n.allocate("first", gpu, 1)
	n.kubelet.Free("first")
	n.eventually("the second holder gets the device", func() bool { // at once, unless kubelet knows that it is unhealthy
		_, err := n.kubelet.Allocate(t.Context(), "second", "main", gpu, 1)
		return err == nil
	})
	if got := calls(); !slices.Equal(got, []string{"release", "reset"}) {
		t.Errorf("before the second holder had the device the calls were %v, want a release and a reset", got)
	}
	n.scenario(`devices: {mock-0: {reset: {result: failed, message: still warm}}}`)
	n.kubelet.Free("second")
	n.wantProblem("mock-0", "reset-after-use", "the last reset failed", "still warm")
	n.wantCounts(gpu, 1, 0)
	n.stopAgent()
	n.startAgent()
	n.wantCounts(gpu, 1, 0)
	n.wantFault("mock-0", "reset-after-use")
	n.scenario("")
	n.wantCounts(gpu, 1, 1)
	n.allocate("third", gpu, 1)
}
