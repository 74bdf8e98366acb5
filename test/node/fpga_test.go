package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

const (
	// The resources that the chart's example makes of a D5005, whose pods name their
	// bitstream by the annotation, of two N3000, whose pods get crypto.gbs, and a U250.
	d5005  = "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
	crypto = "example.com/crypto"
	u250   = "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"

	bitstreamOf = "example.com/bitstream"
	// bitstreams is the example's directory of them.
	bitstreams = "/var/lib/bitstreams"
	// fpgaDir has the trees that are the node's /sys and /dev to the agent.
	fpgaDir = "/run/fpga"
	// localMajor is the number of character devices for local use, which no driver of the
	// kernel has: whoever may open such a node is told ENXIO.
	localMajor = 60
)

// The FPGA backend on a node with cards of Intel's and of AMD's, by the chart's example,
// with the cards' own trees and ioctls.
func TestFPGAs(t *testing.T) {
	n := beginFPGA(t)
	n.installFPGA()
	n.wantCounts(crypto, 2, 2)
	n.wantCounts(d5005, 1, 1)
	n.wantCounts(u250, 1, 1)
	n.checkHealth()
	n.checkProgramming()
}

// checkHealth: an FPGA with an error is handed out no more. That of a pod is left to it,
// and the pod's status says so; one that is idle is reset, and is back.
func (n *fpgaNode) checkHealth() {
	n.Helper()
	n.copy("crypto.gbs", n.bitstream(1, "c"))
	n.start("broken", crypto, 1)
	held, card := n.held("broken", crypto)[0], n.port("broken")
	n.wantProgrammed("with the file of its resource", card, 1, "c")
	n.raise(card)
	n.wantCounts(crypto, 2, 1)
	n.wantDeviceHealth("broken", crypto, held, v1.ResourceHealthStatusUnhealthy)
	n.wantEvent("DeviceUnhealthy", held)

	idle := 3 - card
	at := n.tree.Machine().Cards[idle].Address
	begun, hold := make(chan struct{}), make(chan struct{})
	n.device.NextReset(fpgadevice.Answer{Begun: begun, Hold: hold})
	n.raise(idle)
	select {
	case <-begun:
	case <-n.soon().Done():
		n.Fatalf("the idle FPGA is not reset within %v", patience)
	}
	n.wantCounts(crypto, 2, 0)
	close(hold)
	n.wantCounts(crypto, 2, 1)
	all, err := devices(n.soon())
	if err != nil {
		n.Fatal(err)
	}
	for _, d := range all {
		if d.PCIBusID == at.String() {
			n.wantEvent("DeviceRecovered", d.ID)
		}
	}
	for of, want := range map[int]string{card: "0x2", idle: "0x0"} {
		if got := n.read(of, "errors/errors"); got != want {
			n.Errorf("the register of card %d has %s, not %s", of, got, want)
		}
	}
	calls := n.device.Calls(fpgadevice.Reset)
	if len(calls) != 1 || calls[0].Function != at || calls[0].Errno != 0 {
		n.Errorf("resets %+v, want one of %s", calls, at)
	}
}

// checkProgramming: a pod does not start with a bitstream for another card, and says so,
// until the file is right. A bitstream is programmed before the container starts, once,
// and only if the FPGA has another one; and the container has the node of its port and
// no other.
func (n *fpgaNode) checkProgramming() {
	n.Helper()
	const aes, video = "a", "e"
	right, foreign := n.bitstream(0, aes), n.bitstream(1, aes)
	n.copy("aes.gbs", foreign)
	n.copy("video.gbs", n.bitstream(0, video))

	n.create(asking("one", "aes.gbs"))
	n.wantPodEvent("one", "Failed", fmt.Sprintf("bitstream %s/aes.gbs does not fit port 0 of the card", bitstreams))
	n.wantPodEvent("one", "Failed", fmt.Sprintf("it is for the interface %s, and the port has %s", foreign.Interface, right.Interface))
	if calls := n.programmings(0); len(calls) > 0 {
		n.Errorf("with a file for another card: programmings %+v", calls)
	}
	n.copy("aes.gbs", right)
	n.wantReady("one")
	n.wantProgrammed("with the right file", 0, 1, aes)
	if port := n.port("one"); port != 0 {
		n.Errorf("the pod has the port %d", port)
	}
	n.restartContainer("one")
	n.wantProgrammed("after a restart of the container", 0, 1, aes)
	n.delete("one")
	for _, next := range []struct {
		name, bitstream string
		times           int
		function        string
	}{{"same", "aes.gbs", 1, aes}, {"other", "video.gbs", 2, video}} {
		n.create(asking(next.name, next.bitstream))
		n.wantReady(next.name)
		n.wantProgrammed("in the pod "+next.name, 0, next.times, next.function)
		n.delete(next.name)
	}
}

// asking is a pod that wants a D5005 with a bitstream.
func asking(name, bitstream string) *v1.Pod {
	pod := newPod(name, d5005, 1)
	pod.Annotations = map[string]string{bitstreamOf: bitstream}
	return pod
}

// fpgaNode is the node with FPGAs: what they answer is the test's.
type fpgaNode struct {
	*node
	tree   *fpgatree.Tree
	device *fpgadevice.Device
}

// beginFPGA takes the node, and gives it cards: the trees for the agent, and the nodes
// for containers.
func beginFPGA(t *testing.T) *fpgaNode {
	t.Helper()
	fpgadevice.SkipWithoutFilter(t)
	n := &fpgaNode{}
	t.Cleanup(func() { // after the agent, whose cards they are
		if n.device != nil {
			_ = n.device.Close()
		}
		if err := removeFPGAs(); err != nil {
			t.Error(err)
		}
	})
	n.node = begin(t)
	if err := errors.Join(removeFPGAs(), os.MkdirAll(fpgaDir, 0o755), os.MkdirAll(bitstreams, 0o755)); err != nil {
		t.Fatal(err)
	}
	if nodes, _ := filepath.Glob("/dev/dfl-*"); len(nodes) > 0 {
		t.Skipf("the machine has FPGAs of its own: %s", nodes) //nolint:forbidigo // by design: they are not to be touched
	}
	m := fpgatree.NewD5005()
	for _, bus := range []uint8{0x15, 0x25} {
		card := fpgatree.NewN3000().Cards[0]
		card.Address.Bus = bus
		m.Cards = append(m.Cards, card)
	}
	m.Alveos = fpgatree.NewAlveo(fpgatree.U250).Alveos
	var err error
	if n.tree, err = fpgatree.Write(fpgaDir, m); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", fpgaDir) // the device's socket is where the agent's pod sees it
	if n.device, err = fpgadevice.Start(n.tree); err != nil {
		t.Fatal(err)
	}
	n.device.SeenAt("/host")
	n.device.Needs(300 * time.Millisecond)
	n.makeNodes()
	return n
}

// makeNodes makes the nodes that containers are given. Those of the agent are files; the
// chart mounts the node's /dev read-only, which is nothing to a device, but to a file: a
// mount below it stays as it is.
func (n *fpgaNode) makeNodes() {
	n.Helper()
	files, err := filepath.Glob(filepath.Join(n.tree.Devfs(), "dfl-*"))
	if err != nil || len(files) != 6 {
		n.Fatalf("nodes %q, %v", files, err)
	}
	for i, file := range files {
		err := errors.Join(syscall.Mount(file, file, "", syscall.MS_BIND, ""),
			syscall.Mknod(filepath.Join("/dev", filepath.Base(file)), syscall.S_IFCHR|0o600, localMajor<<8|i))
		if err != nil {
			n.Fatal(err)
		}
	}
}

// removeFPGAs takes away what beginFPGA made, of a run before, too.
func removeFPGAs() error {
	var errs []error
	mounts, _ := filepath.Glob(filepath.Join(fpgaDir, "dev/dfl-*"))
	for _, mount := range mounts {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, err)
		}
	}
	nodes, _ := filepath.Glob("/dev/dfl-*")
	for _, node := range nodes {
		var is syscall.Stat_t
		if err := syscall.Stat(node, &is); err == nil && is.Rdev>>8 == localMajor {
			errs = append(errs, os.Remove(node))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(fpgaDir), os.RemoveAll(bitstreams))...)
}

// installFPGA installs the chart with its example for FPGAs that are programmed, with the
// cards' trees in the places of /sys and /dev. The backend is that of
// the image; what starts it, a script, has its ioctls answered by the test.
func (n *fpgaNode) installFPGA() {
	n.Helper()
	self, err := os.Executable()
	if err != nil {
		n.Fatal(err)
	}
	shell, err := exec.LookPath("busybox")
	if err != nil {
		n.Fatal(err)
	}
	const dir, wrapper = "/usr/libexec/accelmux/", "accelmux-backend-wrapped"
	if err := n.device.Program(filepath.Join(fpgaDir, wrapper), dir+"accelmux-backend-fpga"); err != nil {
		n.Fatal(err)
	}
	n.installExample("fpga", func(example values, profiles []map[string]any) {
		i := slices.IndexFunc(profiles, func(p map[string]any) bool { return p["name"] == "programmed" })
		if i < 0 {
			n.Fatal("the chart's example has no profile programmed")
		}
		example["profile"] = "programmed"
		example["hostPaths"] = values{"sys": n.tree.Sysfs(), "dev": n.tree.Devfs()}
		volumes, mounts := example["extraVolumes"].([]any), example["extraVolumeMounts"].([]any)
		for _, v := range volumes {
			if v := v.(map[string]any); v["name"] == "sys-devices" {
				v["hostPath"] = values{"path": filepath.Join(n.tree.Sysfs(), "devices"), "type": "Directory"}
			}
		}
		for name, path := range map[string]string{"fpga": fpgaDir, "self": self, "shell": shell} {
			volumes = append(volumes, values{"name": name, "hostPath": values{"path": path}})
		}
		example["extraVolumes"] = volumes
		example["extraVolumeMounts"] = append(mounts,
			values{"name": "fpga", "mountPath": fpgaDir}, values{"name": "self", "mountPath": self},
			values{"name": "shell", "mountPath": "/bin/sh"}, values{"name": "fpga", "mountPath": dir + wrapper, "subPath": wrapper})
		backend := profiles[i]["backends"].([]any)[0].(map[string]any)
		backend["command"] = wrapper
		backend["allow"] = map[string]any{"declared": "accept"} // the program is not one of accelmux
		backend["settings"].(map[string]any)["health"] = values{"interval": "1s"}
	})
}

// bitstream is one for a card, with a function whose ID has this digit alone.
func (n *fpgaNode) bitstream(card int, function string) fpgadevice.Bitstream {
	id := n.tree.Machine().Cards[card].Interface
	b := fpgadevice.Bitstream{Interface: id, AFU: strings.Repeat(function, 32), Payload: []byte("for " + id + ": " + function)}
	n.device.Know(b)
	return b
}

// copy copies a file to the node's bitstreams, as an operator does: its name has all of
// it or what was there before.
func (n *fpgaNode) copy(name string, b fpgadevice.Bitstream) {
	n.Helper()
	path := filepath.Join(bitstreams, name)
	if err := errors.Join(os.WriteFile(path+".new", b.GBS(), 0o644), os.Rename(path+".new", path)); err != nil {
		n.Fatal(err)
	}
}

// raise has the port of a card say an error.
func (n *fpgaNode) raise(card int) {
	n.Helper()
	if err := n.tree.SetRegister(n.tree.Machine().Cards[card].Address, "port0/errors", 2); err != nil {
		n.Fatal(err)
	}
}

// read is a file of a card's port.
func (n *fpgaNode) read(card int, file string) string {
	n.Helper()
	dir, err := n.tree.Find(n.tree.Machine().Cards[card].Address, "port0")
	if err != nil {
		n.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(n.tree.Root, dir, file))
	if err != nil {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// programmings are those of a card.
func (n *fpgaNode) programmings(card int) []fpgadevice.Call {
	return slices.DeleteFunc(n.device.Calls(fpgadevice.Program), func(c fpgadevice.Call) bool {
		return c.Function != n.tree.Machine().Cards[card].Address
	})
}

// wantProgrammed checks how often a card was programmed, and what it has.
func (n *fpgaNode) wantProgrammed(when string, card, times int, function string) {
	n.Helper()
	calls := n.programmings(card)
	failed := func(c fpgadevice.Call) bool { return c.Errno != 0 || !c.Done }
	if len(calls) != times || slices.ContainsFunc(calls, failed) {
		n.Errorf("%s: programmings %+v, want %d", when, calls, times)
	}
	if got := n.read(card, "afu_id"); got != strings.Repeat(function, 32) {
		n.Errorf("%s: the FPGA has the function %s, not %s", when, got, function)
	}
}

// port is the number of the only port that the pod's container has the node of, which it
// may open; and it has no other of the cards' nodes.
func (n *fpgaNode) port(pod string) int {
	n.Helper()
	said := n.exec(pod, "sh", "-c", `for d in /dev/dfl-*; do [ -c $d ] && echo $d && cat $d 2>&1; done; true`)
	var port int
	if _, err := fmt.Sscanf(said, "/dev/dfl-port.%d\n", &port); err != nil {
		n.Fatalf("the container of pod %s sees %q", pod, said)
	}
	node := fmt.Sprintf("/dev/dfl-port.%d", port)
	if want := fmt.Sprintf("%s\ncat: can't open '%s': No such device or address\n", node, node); said != want {
		n.Errorf("the container of pod %s sees %q, not %q", pod, said, want)
	}
	return port
}
