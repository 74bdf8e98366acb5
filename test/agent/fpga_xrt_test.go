package agent

import (
	"os"
	"os/exec"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/host"
)

// byXclbin is the parameter of resources whose cards have the same xclbin.
const byXclbin = "parameters: {bitstream: {value: kernel.xclbin}}"

// inRoot has the backend see /proc in the tree's root, as in that of a node, in a mount
// namespace of its own.
func (n *fpgaNode) inRoot() {
	n.Helper()
	if os.Geteuid() != 0 {
		host.Lacks(n.T, "to change the root of a program one must be root")
	}
	proc := n.tree.Root + "/proc"
	n.change(os.Mkdir(proc, 0o755))
	if out, err := exec.CommandContext(n.Context(), "unshare", "--mount", "mount", "--bind", "/proc", proc).CombinedOutput(); err != nil {
		host.Lacks(n.T, "nothing can be mounted in a namespace of its own: %v: %s", err, out)
	}
	const script = `#!/bin/sh
exec unshare --mount sh -c 'mount --bind /proc "$1" && shift && exec "$@"' sh '`
	n.change(os.Mkdir(n.path("backends"), 0o755))
	text := script + proc + "' '" + built.Dir(n.T) + "/accelmux-backend-fpga' \"$@\"\n"
	n.change(os.WriteFile(n.path("backends", "accelmux-backend-fpga"), []byte(text), 0o755))
}

// Verifies that XRT's tool is run in the root that it is installed in, and programs the
// card of a container with the file that was checked, which is in no directory of that
// root, and whatever is done to its name meanwhile; that an xclbin that is loaded is not
// loaded again; and that no other card is touched.
func TestFPGAXclbin(t *testing.T) {
	t.Parallel()
	n, x := newXRTNode(t, xrtCards())
	n.inRoot()
	n.extra = byXclbin
	first := n.xclbin("kernel.xclbin", filter)
	n.configureFPGA(modeAF, programming, "xrt: {root: "+n.tree.Root+"}")
	n.startFPGAAgent(func(o *agent.Options) { o.BackendDir = n.path("backends") })
	n.wantCapacities(map[string]int{u250: 2, u200: 1})
	n.mark(u250)
	n.mark(u200)
	id, card, address := n.allocateOf("pod", u250)
	begun, hold := make(chan struct{}), make(chan struct{})
	x.answer(xbutilAnswer{begun: begun, hold: hold})
	started := make(chan error, 1)
	go func() { started <- n.start("pod") }()
	select {
	case <-begun:
	case err := <-started:
		t.Fatalf("the tool was not called: %v", err)
	}
	second := n.xclbin("kernel.xclbin", scaler)
	close(hold)
	n.change(<-started)
	call := "program --device " + address + " --user /proc/self/fd/3"
	x.wantCalls(1, call, first)
	if self := x.calls[0].self; self != "/usr/bin/xbutil" {
		t.Errorf("the tool sees itself at %s: its root is not that of the settings", self)
	}
	n.eventually("the device has the xclbin", func() bool { return n.device(id).Attributes["functionID"] == filter })
	n.change(n.start("pod")) // there is another file of that name now
	n.change(n.start("pod"))
	x.wantCalls(2, call, second)
	if got := []string{n.loaded(card), n.loaded(1 - card), n.loaded(2)}; got[0] != scaler || got[1] != "" || got[2] != "" {
		t.Errorf("the cards have %q", got)
	}
	n.wantNoDip(u250, 2)
	n.wantNoDip(u200, 1)
	n.stopAgent()
	n.startFPGAAgent(func(o *agent.Options) { o.BackendDir = n.path("backends") })
	n.eventually("the container starts again", func() bool { return n.start("pod") == nil })
	x.wantCalls(2, call, second)
	n.wantWritten()
}
