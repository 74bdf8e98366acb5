package agent

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// startFPGAReset is startFPGA with faulted devices reset by the agent.
func startFPGAReset(t *testing.T, m fpgatree.Machine, settings ...string) *fpgaNode {
	t.Helper()
	n := newFPGADevice(t, m)
	n.resets = "auto"
	n.configureFPGA(modeRegion, settings...)
	n.startFPGAAgent()
	n.wantCounts(n.resource(0), len(n.machine.Cards), len(n.machine.Cards))
	return n
}

// raise sets an error register of a card.
func (n *fpgaNode) raise(card int, register string, value uint64) {
	n.Helper()
	n.change(n.tree.SetRegister(n.machine.Cards[card].Address, register, value))
}

// Verifies that a port with an error is reset by its driver, but not while a container
// holds it and not twice; that its registers are cleared and what is loaded stays; that
// this ends the fault, which else outlives the agent; and that no other card is touched.
func TestFPGAReset(t *testing.T) {
	n := startFPGAReset(t, fpgatree.NewMany(3))
	resource := n.resource(0)
	held := n.allocate("pod", 0)
	faulty := 0
	for n.port(faulty) != held {
		faulty++
	}
	n.eventually("the holder has a name", func() bool { return len(n.device(held).Holders) == 1 })
	n.mark(resource)
	n.raise(faulty, "port0/errors", 2)
	n.wantProblem(held, "port-errors", "waits until")
	n.wantCounts(resource, 3, 2)
	n.wantNoDip(resource, 2)
	n.stopAgent()
	n.startFPGAAgent()
	n.wantCounts(resource, 3, 2)
	n.mark(resource)
	n.wantFault(held, "port-errors")
	if calls := n.kernel.Calls(); len(calls) > 0 {
		t.Errorf("a card that is held was asked %+v", calls)
	}

	n.kubelet.Free("pod")
	n.wantCounts(resource, 3, 3)
	n.wantNoDip(resource, 2)
	calls, pid := n.kernel.Calls(), n.backend("fpga").PID
	if len(calls) != 1 || calls[0].Request != fpgadevice.Reset || calls[0].Function != n.machine.Cards[faulty].Address || calls[0].PID != pid || calls[0].Errno != 0 {
		t.Errorf("the cards were asked %+v, want one reset by process %d", calls, pid)
	}
	if got := n.read(faulty, "port0", "errors/errors"); got != "0x0" {
		t.Errorf("the register has %s after the reset", got)
	}
	if f := n.function(faulty); f != n.machine.Cards[faulty].AFU {
		t.Errorf("the port has the function %s after the reset", f)
	}
	if len(n.device(held).Faults) > 0 {
		t.Errorf("faults are left: %+v", n.device(held).Faults)
	}
}

// Verifies that a reset that does not help leaves the fault, with the reason; that what
// only a reboot ends is not reset; and that the next reset has its chance.
func TestFPGAResetFails(t *testing.T) {
	n := startFPGAReset(t, fpgatree.NewMany(2))
	resource := n.resource(0)
	n.raise(0, "fme/catfatal_errors", 1)
	n.wantFault(n.port(0), "catfatal-errors")
	n.kernel.NextReset(fpgadevice.Answer{Errno: unix.ETIMEDOUT})
	n.raise(1, "fme/pcie0_errors", 4)
	n.wantProblem(n.port(1), "the last reset failed", "PORT_RESET")
	n.wantCounts(resource, 2, 1)
	if got := n.read(1, "fme", "errors/pcie0_errors"); got != "0x0" {
		t.Errorf("the register has %s after the reset", got)
	}
	for _, c := range n.kernel.Calls() {
		if c.Function == n.machine.Cards[0].Address {
			t.Errorf("a card that only a reboot helps was asked %+v", c)
		}
	}
}

// Verifies that a region is reset before a container starts if settings say so, each
// time but when another container has it, and that an error is over by that.
func TestFPGAResetBeforeStart(t *testing.T) {
	n := newFPGADevice(t, fpgatree.NewD5005())
	n.extra = "replicas: 2"
	n.configureFPGA(modeRegion, "prepare: {reset: true}")
	n.startFPGAAgent()
	n.wantCounts(n.resource(0), 2, 2)
	resets := func(want int) {
		t.Helper()
		if got := len(n.kernel.Calls(fpgadevice.Reset)); got != want {
			t.Errorf("%d resets, want %d", got, want)
		}
	}
	n.allocate("a", 0)
	n.allocate("b", 0)
	n.change(n.start("a"))
	n.change(n.start("a"))
	resets(2)
	n.change(n.start("b"))
	n.change(n.start("a"))
	resets(2)
	n.kubelet.Free("b")
	n.eventually("the first is alone again", func() bool { return n.start("a") == nil && len(n.kernel.Calls(fpgadevice.Reset)) == 3 })
	n.kernel.NextReset(fpgadevice.Answer{Errno: unix.ETIMEDOUT})
	n.says(n.start("a"), n.port(0), "reset before the start", "PORT_RESET")
	n.change(n.start("a"))
}

// Verifies that an alarm, a function that got lost, errors of the card, its driver that
// lets go of it and files that are damaged cost that card, and end with their causes.
func TestFPGAHealth(t *testing.T) {
	m := fpgatree.NewMany(4)
	n := newFPGANode(t, m)
	n.configureFPGA(modeAF)
	n.startFPGAAgent()
	resource := functionResource(m.Cards[0].Interface, m.Cards[0].AFU)
	n.wantCounts(resource, 4, 4)
	n.mark(resource)
	n.change(n.tree.Program(m.Cards[0].Address, 0, fpgatree.NoAFU))
	n.change(n.tree.SetSensor(m.Cards[1].Address, "dfl_fme_thermal", "temp1_crit_alarm", 1))
	n.raise(2, "fme/nonfatal_errors", 1)
	n.eventually("metrics are served", func() bool { return n.agent.MetricsAddress() != "" })
	for card, code := range []string{"function-lost", "temperature-critical", "nonfatal-errors"} {
		n.eventually(n.port(card)+" has the fault "+code, func() bool {
			n.metrics() // who listens has sensors read, and their alarms noticed
			f := n.device(n.port(card)).Faults
			return len(f) > 0 && f[0].Code == code
		})
	}
	n.wantCounts(resource, 4, 1)
	n.change(n.tree.Program(m.Cards[0].Address, 0, m.Cards[0].AFU))
	n.change(n.tree.SetSensor(m.Cards[1].Address, "dfl_fme_thermal", "temp1_crit_alarm", 0))
	n.raise(2, "fme/nonfatal_errors", 0)
	n.eventually("all is well again", func() bool {
		n.metrics()
		return n.kubelet.Allocatable(resource) == 4
	})
	n.wantNoDip(resource, 1)
}
