package agent

import (
	"testing"

	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// Verifies that the port of a virtual function is programmed through the engine of the
// physical one, and has the function then; and that a container that has it gets the
// port's node alone.
func TestFPGAVirtualFunction(t *testing.T) {
	t.Parallel()
	n := startFPGA(t, fpgatree.NewVF(), byValue)
	b := n.gbs("crypto.gbs", 0, crypto)
	n.wantCounts(n.resource(0), 1, 1)
	id := n.allocate("pod", 0)
	if want := portID(n.vf(0), "0"); id != want {
		t.Errorf("the container has %s, want %s", id, want)
	}
	n.change(n.start("pod"))
	n.change(n.start("pod"))
	calls := n.kernel.Calls(fpgadevice.Program)
	if len(calls) != 1 || calls[0].Node != "dfl-fme.0" || calls[0].Function != n.machine.Cards[0].Address || calls[0].Errno != 0 || calls[0].Size != len(b.Payload) {
		t.Errorf("the kernel got %+v, want one programming by dfl-fme.0", calls)
	}
	n.eventually("the device has the function", func() bool { return n.device(id).Attributes["functionID"] == crypto })
	n.wantNodes(map[string]string{id: "/dev/dfl-port.0"})
}

// Verifies that a port that does not report its content, as those of OFS, is programmed for
// each container that has it alone, and that the kernel's result counts.
func TestFPGAUnreported(t *testing.T) {
	t.Parallel()
	n := startFPGA(t, fpgatree.NewN6000(), byValue)
	b := n.gbs("crypto.gbs", 0, crypto)
	n.allocate("pod", 0)
	n.change(n.start("pod"))
	n.change(n.start("pod"))
	calls := n.kernel.Calls(fpgadevice.Program)
	if len(calls) != 2 || calls[1].Errno != 0 || calls[1].Size != len(b.Payload) {
		t.Errorf("the kernel got %+v, want two programmings", calls)
	}
}
