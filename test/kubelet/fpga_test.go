package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Interfaces of cards of the machine, and their resources.
const (
	n3000Interface = "a5d72a3cc8b04939912cf715e5dc10ca"
	n3000          = "fpga.intel.com/region-" + n3000Interface
	d5005          = "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
)

// fpgas is a node with cards of each of Intel's kinds, and what answers the backend's ioctls.
type fpgas struct {
	*node
	device *fpgadevice.Device
}

// startFPGA is a node with that machine, whose cards are programmed with crypto.gbs
// before a container starts.
func startFPGA(t *testing.T) *fpgas {
	t.Helper()
	fpgadevice.SkipWithoutFilter(t)
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewMixed())
	if err != nil {
		t.Fatal(err)
	}
	m := &fpgas{node: newNode(t, realkubelet.Options{}), device: fpgadevice.New(t, tree)}
	backends, bitstreams := t.TempDir(), t.TempDir()
	const backend = "accelmux-backend-fpga"
	if err := m.device.Program(filepath.Join(backends, backend), filepath.Join(m.bin, backend)); err != nil {
		t.Fatal(err)
	}
	crypto := fpgadevice.Bitstream{Interface: n3000Interface, AFU: strings.Repeat("c", 32), Payload: []byte("payload")}
	m.device.Know(crypto)
	if err := os.WriteFile(filepath.Join(bitstreams, "crypto.gbs"), crypto.GBS(), 0o600); err != nil {
		t.Fatal(err)
	}
	m.agent.Args = []string{"--devfs", tree.Devfs(), "--sysfs", tree.Sysfs(), "--backend-dir", backends}
	m.startKubelet()
	m.configure(agent.Config{
		Backend: agent.Backend{
			Name: "fpga", Recovery: &agent.Recovery{Delay: "0s", Reset: "auto"},
			Settings: map[string]any{"mode": "region", "bitstreams": bitstreams, "health": map[string]any{"interval": "1s"}},
		},
		Resources: []agent.Resource{{
			Name: "fpga.intel.com/{regionName}", Parameters: map[string]agent.Parameter{"bitstream": {Value: "crypto.gbs"}},
		}},
	})
	m.startAgent()
	m.wantCounts(n3000, 4, 4)
	m.wantCounts(d5005, 2, 2)
	return m
}

// wantPrograms fails unless cards were programmed so often, and nothing else was asked of them.
func (m *fpgas) wantPrograms(want int) {
	m.Helper()
	if got, all := len(m.device.Calls(fpgadevice.Program)), len(m.device.Calls()); got != want || all != want {
		m.Errorf("%d programmings of %d ioctls, want %d and nothing else", got, all, want)
	}
}

// TestFPGAProgramming verifies that kubelet's PreStartContainer has the cards of a pod
// programmed, by the drivers' own ioctls and once; that a start that the card or the
// file does not allow fails with the reason, and the next try works; and that the
// container gets the nodes of its ports and no other.
func TestFPGAProgramming(t *testing.T) {
	m := startFPGA(t)
	pod := m.admit("pod", n3000, 2)
	m.wantPrograms(0)
	names := deviceNames(m.cdiNames(m.startContainer(pod)))
	if len(names) != 2 {
		t.Errorf("the container has the CDI devices %q, want two", names)
	}
	for _, name := range names {
		if nodes := m.nodes(name); len(nodes) != 1 || !strings.HasPrefix(nodes[0], "/dev/dfl-port.") {
			t.Errorf("%s has the nodes %q, want that of its port", name, nodes)
		}
	}
	m.wantPrograms(2)
	m.startContainer(pod) // once more, as after a crash
	m.wantPrograms(2)

	other := m.admit("other", n3000, 1)
	m.device.Next(fpgadevice.Answer{Errno: unix.EBUSY})
	m.wantRefused(other, "crypto.gbs", "being programmed by another program")
	m.startContainer(other)
	m.wantPrograms(4)
	m.wantRefused(m.admit("foreign", d5005, 1), "crypto.gbs", "it is for the interface "+n3000Interface)
	m.wantPrograms(4)
}

// wantRefused fails unless the start of a pod's container fails with all the words and
// the device.
func (m *fpgas) wantRefused(pod *v1.Pod, words ...string) {
	m.Helper()
	_, err := m.kubelet.StartContainer(m.soon(), pod, "c")
	for _, word := range append(words, m.heldAny(pod)...) {
		if err == nil || !strings.Contains(err.Error(), word) {
			m.Errorf("the start of %s says %v\nwant %q in it", pod.Name, err, word)
		}
	}
}

// heldAny are the units that the pod's container has of either resource.
func (m *fpgas) heldAny(pod *v1.Pod) []string {
	return append(m.held(pod, n3000), m.held(pod, d5005)...)
}
