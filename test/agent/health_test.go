package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Rule 1: a dead device costs one device.
func TestDeadDeviceCostsOneDevice(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, twoBackends)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.scenario(`devices: {mock-1: {fault: {code: off-the-bus, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-1", "off-the-bus")
	n.wantNoDip("example.com/fpga", 2)
}

// Rule 1: a dead backend costs, after its holdover, its own devices and no
// others; they come back with it.
func TestDeadBackendCostsItsOwnDevicesAfterHoldover(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(twoBackends)
	options := n.options()
	options.Timing.Supervisor.Failures = 1000 // no quarantine here
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.scenario(`crash: {repeat: true}`)
	n.wantCounts(gpu, 4, 0)
	n.wantFault("mock-0", "backend-lost")
	n.wantNoDip("example.com/fpga", 2)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
}

// Rule 2: a fault that needs more than time sticks: over the backend's death,
// kubelet's restart and the agent's own, although the hardware says no more of it.
func TestFaultSticks(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-2: {fault: {code: xid-79, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)

	n.scenario("")
	before := n.backend("mock")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { return n.backend("mock").Generation > before.Generation })
	n.wantFault("mock-2", "xid-79")
	n.wantCounts(gpu, 4, 3)

	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 3)

	n.stopAgent()
	n.startAgent()
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-2", "xid-79")
}

// Rule 2: replicas and partitions share the fate of their device.
func TestReplicasAndPartitionsShareTheFate(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings:
          scenarioFile: DIR/scenario.yaml
          devices:
            - {count: 2, id: "whole-{{.GroupIndex}}"}
            - {count: 2, class: npu, id: "card-{{.GroupIndex}}", partitions: {count: 3, listParent: true}}
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu, class: gpu, replicas: 4}
      - {name: example.com/part, selector: '"parent" in device.attributes["accelmux.io"]'}
`)
	n.startAgent()
	n.wantCounts(gpu, 8, 8)
	n.wantCounts("example.com/part", 6, 6)
	n.scenario(`
devices:
  whole-1: {fault: {code: a, recovery: reboot}}
  card-0: {fault: {code: b, recovery: reboot}}`)
	n.wantCounts(gpu, 8, 4)
	n.wantCounts("example.com/part", 6, 3)
}

// Rule 3: every fault has a way back without a restart: by itself, by the
// backend's evidence, and by a reset.
func TestFaultRecovers(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ fault, over string }{
		"by itself":           {"{code: hot, recovery: self}", ""},
		"evidence":            {"{code: ecc, recovery: replacement}", "devices: {mock-3: {recovered: true}}"},
		"a reset that worked": {"{code: stuck, recovery: reset}", "devices: {mock-3: {fault: {code: stuck, recovery: reset}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, 4, oneBackend)
			n.scenario(`devices: {mock-3: {fault: ` + way.fault + `, reset: {result: failed, message: not yet}}}`)
			n.wantCounts(gpu, 4, 3)
			n.scenario(way.over)
			n.wantCounts(gpu, 4, 4)
		})
	}
}

// Rule 3: a new boot clears what needs a reboot.
func TestNewBootClearsFaults(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-1: {fault: {code: xid-79, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)
	n.stopAgent()
	n.scenario("")
	n.boot(secondBoot)
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
}

// Rule 4: a device is not reset while another of its reset group is allocated; it is as
// soon as the holder is gone. Until then no device of the group is given to another
// container.
func TestHeldGroupIsNotReset(t *testing.T) {
	t.Parallel()
	n := startNode(t, 3, strings.Replace(partitioned, "count: 2", "count: 3", 1), quickUsage)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc([]string{"card-p0", "card-p1", "card-p2"}, func(id string) bool { return slices.Contains(allocation.Devices, id) })
	n.scenario(fmt.Sprintf(`devices: {%s: {fault: {code: stuck, recovery: reset}}}`, others[0]))
	n.wantProblem(others[0], "stuck", "waits until", allocation.Devices[0])
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

// A reset that worked is not done again while the device has yet to stay sound
// for the delay of its recovery.
func TestResetThatWorkedIsNotRepeated(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, strings.Replace(oneBackend, "delay: 0s", "delay: 2s", 1))
	n.scenario(`devices: {mock-0: {fault: {code: stuck, recovery: reset}}}`)
	n.wantCounts(gpu, 4, 3)
	n.wantCounts(gpu, 4, 4)
	if resets := strings.Count(n.log.String(), `msg="reset done" backend=mock devices=1`); resets != 1 {
		t.Errorf("%d resets, want 1", resets)
	}
}

// A reset that costs the backend its life counts as one that failed: the next one
// waits, although the backend was gone in between.
func TestResetThatKillsTheBackendBacksOff(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	options := n.options()
	options.Timing.ResetBackoff = time.Hour
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	before := n.backend("mock")
	n.scenario(`devices: {mock-0: {fault: {code: stuck, recovery: reset}, reset: {delay: 1m}}}`)
	n.wantFault("mock-0", "resetting")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the reset has failed with the backend, and it is back", func() bool {
		now := n.backend("mock")
		return n.logged("reset failed") && now.PID != before.PID && now.State == "running"
	})
	n.wantCounts(gpu, 4, 3)
	n.scenario(`devices: {mock-0: {fault: {code: stuck, recovery: reset}, reset: {delay: 1m}}, mock-1: {fault: {code: hot, recovery: self}}}`)
	n.wantCounts(gpu, 4, 2)
	n.wantProblem("mock-0", "the last reset failed")
	if failed := strings.Count(n.log.String(), `msg="reset failed"`); failed != 1 {
		t.Errorf("%d resets, want 1", failed)
	}
}

// A device that reports without end does not keep a fault of another waiting: what
// changes more often than it is taken is not queued.
func TestFaultBesideManyReports(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	var steps strings.Builder
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&steps, "  - {after: %dms, devices: {mock-1: {attributes: {load: %d}}}}\n", 5*i, i)
	}
	n.scenario("steps:\n" + steps.String() + "  - {after: 5s, devices: {mock-0: {fault: {code: off-the-bus}}}}\n")
	n.eventually("the reports come", func() bool { return n.logged("changes more often than it is sent") })
	n.wantFault("mock-0", "off-the-bus")
	n.wantCounts(gpu, 4, 3)
	if strings.Contains(n.problems(), "more updates than the limit") {
		t.Errorf("the core says that it is sent too much:\n%s", n.problems())
	}
}
