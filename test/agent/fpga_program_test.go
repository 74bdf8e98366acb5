package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// byValue and byPod are the parameters of resources: a bitstream that the configuration
// names, and one that the pod does.
const (
	byValue = "parameters: {bitstream: {value: crypto.gbs}}"
	byPod   = "parameters: {bitstream: {annotation: fpga.intel.com/bitstream, env: BITSTREAM}}"
)

// startFPGACluster is startFPGA with the bitstream named by the pod, and the API server
// that has the pods.
func startFPGACluster(t *testing.T, m fpgatree.Machine, extra string) (*fpgaNode, *clustertest.Server) {
	t.Helper()
	server := clustertest.New(t, "node-1", map[string]string{})
	n := newFPGADevice(t, m)
	n.extra = byPod + extra
	n.configureFPGA(modeRegion, programming)
	n.startFPGAAgent(func(o *agent.Options) {
		in := n.inCluster(server)
		o.Cluster, o.Timing.Selection, o.Timing.Events, o.Profile = in.Cluster, in.Timing.Selection, in.Timing.Events, "default"
	})
	return n, server
}

// wants is a pod that asks for a bitstream by an annotation.
func wants(pod, file string) corev1.Pod { return aPod(pod, "fpga.intel.com/bitstream", file) }

// Verifies that a card has the bitstream that its resource names before a container
// starts, all of it and through the drivers' own ioctls; that one that is there is not
// programmed again, also not after a restart of the agent; and that a file that was made
// anew is.
func TestFPGAProgramming(t *testing.T) {
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

// Verifies that each pod gets what it asks for by an annotation or a variable, on cards
// of both drivers; and that what cannot be programmed is refused with a sentence that
// names the file, the card and the reason, and leaves the card as it was.
func TestFPGABitstreamsOfPods(t *testing.T) {
	n, server := startFPGACluster(t, threeCards(), "")
	good, older := n.gbs("crypto.gbs", 0, crypto), n.gbs("older.gbs", 2, compression)
	server.SetPod(wants("a", "crypto.gbs"))
	server.SetPod(withEnv(wants("b", "crypto.gbs"), "BITSTREAM", "older.gbs"))
	server.SetPod(aPod("none"))
	for _, resource := range []int{0, 1, 2} {
		n.wantCounts(n.resource(resource), 1, 1)
	}
	n.allocate("default/a", 0)
	n.allocate("default/b", 2)
	n.change(n.start("default/a"))
	n.change(n.start("default/b"))
	n.wantProgrammed(0, 1, good)
	n.wantProgrammed(2, 1, older)
	n.allocate("default/none", 1)
	n.change(n.start("default/none")) // asks for nothing, and has what is there
	n.kubelet.Free("default/none")

	n.allocate("default/bad", 1)
	n.spoilBitstreams(good.GBS())
	before := n.function(1)
	for file, reason := range map[string]string{
		"crypto.gbs": "it is for the interface " + n.machine.Cards[0].Interface, "short.gbs": "cut off", "lying.gbs": "metadata",
		"empty.gbs": "the bitstream is missing", "huge.gbs": "at most", "../outside.gbs": "it is a path", "/etc/hosts": "it is a path",
		"link.gbs": "leads out of the directory", "missing.gbs": "no such file", "raw.bin": "a .gbs is needed",
	} {
		server.SetPod(wants("bad", file))
		n.says(n.start("default/bad"), n.port(1), file, reason)
	}
	n.wantProgrammed(1, 0, good)
	if f := n.function(1); f != before || len(n.kernel.Calls()) != 2 {
		t.Errorf("the card has %s now, was %s; calls %+v", f, before, n.kernel.Calls())
	}
	mended := n.gbs("mended.gbs", 1, crypto)
	server.SetPod(wants("bad", "mended.gbs"))
	n.change(n.start("default/bad"))
	n.wantProgrammed(1, 1, mended)
}

// spoilBitstreams makes files that no card takes of a good one.
func (n *fpgaNode) spoilBitstreams(good []byte) {
	n.Helper()
	lying, at := bytes.Clone(good), 16
	binary.LittleEndian.PutUint32(lying[at:], uint32(len(good)))
	metadata := int(binary.LittleEndian.Uint32(good[at:])) + at + 4
	for name, content := range map[string][]byte{
		"short.gbs": good[:at+10], "lying.gbs": lying, "empty.gbs": good[:metadata], "huge.gbs": good, "raw.bin": bytes.Repeat([]byte("raw bits"), 100),
	} {
		n.file(name, content)
	}
	n.change(os.Truncate(n.path("bitstreams", "huge.gbs"), 8<<30))
	n.change(os.WriteFile(n.path("outside.gbs"), good, 0o600))
	n.change(os.Symlink("../outside.gbs", n.path("bitstreams", "link.gbs")))
}

// Verifies that what the card or the driver refuses is told with the reason, that the
// card is as it was as far as anybody can tell, and that the next try has its chance.
func TestFPGARefusals(t *testing.T) {
	n := startFPGA(t, fpgatree.NewD5005(), byValue)
	b := n.gbs("crypto.gbs", 0, crypto)
	n.allocate("pod", 0)
	n.kernel.Next(fpgadevice.Answer{Errno: unix.EBUSY})
	n.says(n.start("pod"), n.port(0), "crypto.gbs", "being programmed by another program", "as it was")
	n.kernel.Next(fpgadevice.Answer{Errno: unix.EIO, Faults: 1 << 1})
	n.says(n.start("pod"), n.port(0), "crypto.gbs", "CRC error")
	n.kernel.Next(fpgadevice.Answer{AFU: compression})
	n.says(n.start("pod"), n.port(0), "crypto.gbs", compression, "instead of "+crypto)
	n.change(n.start("pod"))
	if n.function(0) != b.AFU {
		t.Errorf("the card has %s", n.function(0))
	}
}

// Verifies that two containers cannot have different bitstreams in one region, neither
// when one runs nor when both start at the same time; and that they can share one.
func TestFPGASharedRegion(t *testing.T) {
	n, server := startFPGACluster(t, fpgatree.NewD5005(), ", replicas: 3")
	first, second := n.gbs("first.gbs", 0, crypto), n.gbs("second.gbs", 0, compression)
	for pod, file := range map[string]string{"a": "first.gbs", "b": "second.gbs", "c": "first.gbs"} {
		server.SetPod(wants(pod, file))
	}
	n.wantCounts(n.resource(0), 3, 3)
	for _, pod := range []string{"default/a", "default/b", "default/c"} {
		n.allocate(pod, 0)
	}
	begun, hold := make(chan struct{}), make(chan struct{})
	n.kernel.Next(fpgadevice.Answer{Begun: begun, Hold: hold})
	started := make(chan error, 1)
	go func() { started <- n.start("default/a") }()
	<-begun
	late := make(chan error, 1)
	go func() { late <- n.start("default/b") }()
	close(hold)
	n.change(<-started)
	n.says(<-late, n.port(0), "second.gbs", "another container uses it", "first.gbs")
	n.change(n.start("default/c"))
	n.says(n.start("default/b"), n.port(0), "second.gbs", "another container uses it", "first.gbs")
	n.wantProgrammed(0, 1, first)
	n.kubelet.Free("default/a")
	n.kubelet.Free("default/c")
	n.eventually("the region can be programmed", func() bool { return n.start("default/b") == nil })
	n.wantProgrammed(0, 2, second)
}

// Verifies that a programming that hangs in the kernel fails the start in time, costs
// that card alone, and is over when it ends.
func TestFPGAHang(t *testing.T) {
	n := newFPGADevice(t, fpgatree.NewMany(2))
	n.extra = byValue
	n.configureFPGA(modeRegion, programming)
	n.startFPGAAgent(func(o *agent.Options) { o.Timing.Supervisor.Prepare = 4 * time.Second }) // enough for a call that does not hang
	n.wantCounts(n.resource(0), 2, 2)
	b := n.gbs("crypto.gbs", 0, crypto)
	hung := n.allocate("hung", 0)
	n.allocate("pod", 0)
	n.mark(n.resource(0))
	begun, hold := make(chan struct{}), make(chan struct{})
	n.kernel.Next(fpgadevice.Answer{Begun: begun, Hold: hold})
	n.says(n.start("hung"), hung, "crypto.gbs", "the operation is still running")
	<-begun
	n.wantFault(hung, "programming")
	n.change(n.start("pod")) // for which the driver is read again and again
	if d := n.device(hung); len(d.Faults) != 1 || d.Faults[0].Code != "programming" {
		t.Errorf("the fault is over before the kernel is: %+v", d.Faults)
	}
	close(hold)
	n.wantCounts(n.resource(0), 2, 2)
	n.change(n.start("hung"))
	for card := range 2 {
		n.wantProgrammed(card, 1, b)
	}
	n.wantNoDip(n.resource(0), 1)
}

// Verifies that a backend that is killed while it programs a card costs the start, not
// the node, and that the card is programmed then.
func TestFPGAKilled(t *testing.T) {
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

// Verifies that an FPGA under Linux's FPGA subsystem is programmed through its manager's
// files, with all of the bitstream, for each container that has it for itself, since
// nobody can tell what it has; that the kernel's error is told with the step that failed;
// and that nothing is left in the directory of firmware.
func TestFPGAFirmware(t *testing.T) {
	n := newFPGADevice(t, fpgatree.NewZynqMP())
	n.change(os.Mkdir(n.path("firmware"), 0o755))
	kernel := &fpgatree.Kernel{Tree: n.tree, Firmware: n.path("firmware")}
	var mu sync.Mutex // of the kernel
	n.kernel.OnWrite(func(file, text string) (unix.Errno, bool) {
		if !strings.Contains(file, "/fpga_manager/") {
			return 0, false
		}
		mu.Lock()
		defer mu.Unlock()
		var errno unix.Errno
		if err := kernel.Write(filepath.Join(n.tree.Root, file), text); err != nil && !errors.As(err, &errno) {
			errno = unix.EIO
		}
		return errno, true
	})
	const resource = "fpga.intel.com/region-xilinx-zynqmp-fpga-manager"
	n.extra = "parameters: {bitstream: {value: filter.bin}}"
	content := bytes.Repeat([]byte("raw bits"), 1000)
	n.file("filter.bin", content)
	n.configureFPGA(modeAF, programming, "manager: {firmware: DIR/firmware}")
	n.startFPGAAgent()
	n.wantCounts(resource, 1, 1)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", resource, 1)
	n.change(err)
	n.change(n.start("pod"))
	n.change(n.start("pod"))
	mu.Lock()
	if len(kernel.Programmed) != 2 || !bytes.Equal(kernel.Programmed[1], content) {
		t.Errorf("the kernel was given %d files, want all of filter.bin twice", len(kernel.Programmed))
	}
	kernel.Fail = "write"
	mu.Unlock()
	n.says(n.start("pod"), allocation.Devices[0], "filter.bin", "write error")
	if left, err := os.ReadDir(n.path("firmware")); err != nil || len(left) > 0 {
		t.Errorf("the directory of firmware has %v, %v", left, err)
	}
}
