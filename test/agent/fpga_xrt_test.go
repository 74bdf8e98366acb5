package agent

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// byXclbin is the parameter of resources whose cards have the same xclbin.
const byXclbin = "parameters: {bitstream: {value: kernel.xclbin}}"

// startXRT is a node with everything running, whose cards are programmed by the tool in
// the tree's root, which is started without chroot.
func startXRT(t *testing.T, extra string, edit ...func(*agent.Options)) (*fpgaNode, *xbutil) {
	t.Helper()
	n, x := newXRTNode(t, xrtCards())
	n.extra, n.resets = extra, "auto"
	n.configureFPGA(modeAF, programming, "xrt: {tool: "+x.path+"}")
	n.startFPGAAgent(edit...)
	n.wantCapacities(map[string]int{u250: 2, u200: 1})
	return n, x
}

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

// Verifies that a file that is not for a card's shell, by its interfaces or its name and
// time, is refused before the tool is called; and that what the tool says when it fails
// is told, with what the card has then; and that the next try has its chance.
func TestFPGAXclbinRefused(t *testing.T) {
	server := clustertest.New(t, "node-1", map[string]string{})
	var n *fpgaNode
	n, x := newXRTNode(t, xrtCards())
	n.extra = byPod
	n.configureFPGA(modeAF, programming, "xrt: {tool: "+x.path+"}")
	n.startFPGAAgent(func(o *agent.Options) {
		in := n.inCluster(server)
		o.Cluster, o.Timing.Selection, o.Timing.Events, o.Profile = in.Cluster, in.Timing.Selection, in.Timing.Events, "default"
	})
	n.wantCapacities(map[string]int{u250: 2, u200: 1})
	good := n.xclbin("good.xclbin", filter)
	n.file("short.xclbin", good[:300])
	n.file("older.xclbin", fpgatree.Xclbin{VBNV: fpgatree.U200.VBNV, Time: 5, UUID: filter}.Bytes())
	n.file("u280.xclbin", fpgatree.Xclbin{VBNV: fpgatree.U280.VBNV, Time: fpgatree.U280.Timestamp, UUID: filter}.Bytes())
	n.file("u50.xclbin", fpgatree.Xclbin{VBNV: fpgatree.U250.VBNV, UUID: filter, Interfaces: fpgatree.U50.Interfaces}.Bytes())
	n.file("port.gbs", exampleFile.GBS())
	id, card, address := n.allocateOf("default/new", u250)
	other, _, _ := n.allocateOf("default/old", u200)
	refused := func(pod, device, file string, reasons ...string) {
		t.Helper()
		server.SetPod(wants(pod, file))
		n.says(n.start("default/"+pod), append(reasons, device, file)...)
	}
	refused("new", id, "u50.xclbin", "it needs the interface b7ac1abe", fpgatree.U250.Interfaces[0])
	refused("new", id, "u280.xclbin", "the platform "+fpgatree.U280.VBNV, fpgatree.U250.VBNV)
	refused("new", id, "port.gbs", "an xclbin was expected")
	refused("new", id, "short.xclbin", "cut off")
	refused("old", other, "older.xclbin", "of time 5", "has 1561465320")
	refused("old", other, "good.xclbin", "it needs the interface", "has none")
	x.wantCalls(0, "", nil)

	x.answer(xbutilAnswer{status: 1, words: "ERROR: xclbin is locked\nby a process"})
	refused("new", id, "good.xclbin", "xbutil program", "exit status 1", "ERROR: xclbin is locked by a process", "nothing loaded")
	n.wantCounts(u250, 2, 2)
	n.change(n.start("default/new"))
	x.wantCalls(2, "program --device "+address+" --user /proc/self/fd/3", good)
	if n.loaded(card) != filter {
		t.Errorf("the card has %q", n.loaded(card))
	}
}

// Verifies that a tool that hangs is killed in time, with an error that says so, and that
// one that is not there is told of; either costs the start on that card, and nothing else.
func TestFPGAXclbinTool(t *testing.T) {
	n, x := startXRT(t, byXclbin, func(o *agent.Options) { o.Timing.Supervisor.Prepare = 6 * time.Second }) // enough for a tool that does not hang
	file := n.xclbin("kernel.xclbin", filter)
	n.mark(u250)
	hung, card, _ := n.allocateOf("hung", u250)
	_, _, address := n.allocateOf("pod", u250)
	begun, killed := make(chan struct{}), make(chan struct{})
	x.answer(xbutilAnswer{begun: begun, hold: make(chan struct{}), killed: killed})
	started := make(chan error, 1)
	go func() { started <- n.start("hung") }()
	<-begun
	n.change(n.start("pod")) // meanwhile
	x.wantCalls(1, "program --device "+address+" --user /proc/self/fd/3", file)
	n.says(<-started, hung, "kernel.xclbin", "xbutil program", "did not end in time and was killed")
	select {
	case <-killed:
	case <-time.After(patience.Long):
		t.Fatal("the tool was not killed")
	}
	n.wantNoDip(u250, 2)

	n.change(os.Rename(x.path, x.path+".away"))
	n.says(n.start("hung"), hung, "kernel.xclbin", "cannot be programmed from here", "programmable")
	if got := n.loaded(card); got != "" {
		t.Errorf("without the tool the card has %q", got)
	}
	n.eventually("the device says so", func() bool { return n.device(hung).Attributes["programmable"] == false })
	n.change(n.start("pod")) // which has it
	n.change(os.Rename(x.path+".away", x.path))
	n.change(n.start("hung"))
	if got := n.loaded(card); got != filter {
		t.Errorf("the card has %q", got)
	}
	n.wantNoDip(u250, 2)
}

// Verifies that a card with a tripped firewall is reset by XRT's tool once nobody holds
// it, that what the tool says when it fails is told, and that a container gets its xclbin
// again, which a reset takes away; while the other card stays as it is.
func TestFPGAXclbinReset(t *testing.T) {
	n, x := startXRT(t, byXclbin)
	file := n.xclbin("kernel.xclbin", filter)
	id, card, address := n.allocateOf("pod", u250)
	n.change(n.start("pod"))
	n.eventually("the holder has a name", func() bool { return len(n.device(id).Holders) == 1 })
	n.mark(u250)
	n.change(n.tree.TripFirewall(card, 1, "ep_firewall_ctrl_user_00", 1<<19, 1700000000))
	n.wantProblem(id, "firewall-tripped", "waits until")
	x.wantCalls(1, "program --device "+address+" --user /proc/self/fd/3", file)
	x.answer(xbutilAnswer{status: 1, words: "ERROR: Device is busy"})
	n.kubelet.Free("pod")
	n.wantProblem(id, "the last reset failed", "ERROR: Device is busy")
	n.wantCounts(u250, 2, 2)
	x.wantCalls(3, "reset --device "+address+" --force", nil)
	if got := n.loaded(card); got != "" {
		t.Errorf("the card has %q after the reset", got)
	}
	n.eventually("the card is given again", func() bool {
		again, _, _ := n.allocateOf("next", u250)
		if again != id {
			n.kubelet.Free("next")
		}
		return again == id
	})
	n.change(n.start("next"))
	x.wantCalls(4, "program --device "+address+" --user /proc/self/fd/3", file)
	if got := n.loaded(card); got != filter {
		t.Errorf("the card has %q", got)
	}
	n.wantNoDip(u250, 1)
}
