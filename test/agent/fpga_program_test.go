package agent

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/fpgadevice"
)

// byValue are the parameters of a resource whose bitstream the configuration names.
const byValue = "parameters: {bitstream: {value: crypto.gbs}}"

// Verifies that a card has the bitstream that its resource names before a container
// starts, all of it and through the drivers' own ioctls; that one that is there is not
// programmed again, also not after a restart of the agent; and that a file that was made
// anew is.
func TestFPGAProgramming(t *testing.T) {
	t.Parallel()
	n := startFPGA(t, threeCards(), byValue)
	first := n.gbs("crypto.gbs", 0, crypto)
	id := n.allocate("pod", 0)
	if f := n.function(0); f != n.machine.Cards[0].AFU {
		t.Errorf("the card has %s before a container starts", f)
	}
	n.change(n.start("pod"))
	n.wantProgrammed(0, 1, first)
	n.eventually("the device has the function", func() bool { return n.device(id).Attributes["functionID"] == crypto })
	n.change(n.start("pod"))
	n.kubelet.Free("pod")
	n.allocate("next", 0)
	n.change(n.start("next"))
	n.wantProgrammed(0, 1, first)

	second := n.gbs("crypto.gbs", 0, compression)
	n.change(n.start("next"))
	n.wantProgrammed(0, 2, second)
	n.stopAgent()
	n.startFPGAAgent()
	for card := range 3 {
		n.wantCounts(n.resource(card), 1, 1)
	}
	n.eventually("the container starts again", func() bool { return n.start("next") == nil })
	if got := len(n.kernel.Calls(fpgadevice.Program)); got != 2 {
		t.Errorf("%d programmings, want none after a restart of the agent", got)
	}
	n.allocate("other", 2)
	n.says(n.start("other"), n.port(2), "crypto.gbs", "it is for the interface "+n.machine.Cards[0].Interface)
	n.wantWritten()
}

// Verifies that a backend that is killed while it programs a card costs the start, not
// the node, and that the card is programmed then.
func TestFPGAKilled(t *testing.T) {
	t.Parallel()
	n := startFPGA(t, threeCards(), byValue)
	b := n.gbs("crypto.gbs", 0, crypto)
	n.allocate("pod", 0)
	for card := range 3 {
		n.mark(n.resource(card))
	}
	begun, hold := make(chan struct{}), make(chan struct{})
	n.kernel.Next(fpgadevice.Answer{Begun: begun, Hold: hold})
	started := make(chan error, 1)
	go func() { started <- n.start("pod") }()
	<-begun
	before := n.backend("fpga")
	n.change(unix.Kill(before.PID, unix.SIGKILL))
	if err := <-started; err == nil {
		t.Error("a container started though its backend was killed")
	}
	close(hold)
	n.eventually("the backend is back", func() bool { return n.backend("fpga").Generation > before.Generation })
	n.eventually("the container starts", func() bool { return n.start("pod") == nil })
	if f := n.function(0); f != b.AFU {
		t.Errorf("the card has %s", f)
	}
	for card := range 3 {
		n.wantNoDip(n.resource(card), 1)
	}
}
