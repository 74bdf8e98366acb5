package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// Interfaces of cards of the machine, and their resources.
const (
	n3000Interface = "a5d72a3cc8b04939912cf715e5dc10ca"
	n3000          = "fpga.intel.com/region-" + n3000Interface
	d5005          = "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
)

// fpgas is a node with cards of each of Intel's kinds, as test/fpgadevice in the module
// two directories up makes them: a process that is the sysfs, and that answers what the
// backend asks the drivers for.
type fpgas struct {
	*node
	dir     string
	in      io.Writer
	answers *bufio.Scanner
}

// startFPGA is a node with that machine, whose cards are programmed with crypto.gbs
// before a container starts.
func startFPGA(t *testing.T) *fpgas {
	t.Helper()
	m := &fpgas{node: newNode(t, realkubelet.Options{})}
	m.dir = filepath.Join(filepath.Dir(m.agent.ConfigFile()), "fpga")
	for _, dir := range []string{m.dir, m.path("tree"), m.path("backends"), m.path("bitstreams")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.plugIn()
	if answer := m.ask("wrap " + filepath.Join(programs.dir, "accelmux-backend-fpga") + " " + m.path("backends", "accelmux-backend-fpga")); answer != "ok" {
		// The kernel cannot hand system calls to another process. What a release of kubelet
		// cannot do stays a skip; this is the machine's (test/host, in another module).
		if os.Getenv("ACCELMUX_NO_SKIPS") == "1" {
			t.Fatal(answer)
		}
		t.Skip(answer) //nolint:forbidigo // the place for it, see above
	}
	m.say("make "+m.path("bitstreams", "crypto.gbs")+" "+n3000Interface+" "+strings.Repeat("c", 32), "ok")
	m.agent.Args = []string{"--devfs", m.path("tree", "dev"), "--sysfs", m.path("tree", "sys"), "--backend-dir", m.path("backends")}
	m.startKubelet()
	m.configure(agent.Config{
		Backend: agent.Backend{
			Name: "fpga", Recovery: &agent.Recovery{Delay: "0s", Reset: "auto"},
			Settings: map[string]any{"mode": "region", "bitstreams": m.path("bitstreams"), "health": map[string]any{"interval": "1s"}},
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

func (m *fpgas) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

// plugIn makes the machine.
func (m *fpgas) plugIn() {
	m.Helper()
	program := filepath.Join(m.TempDir(), "fpgamachine")
	build := exec.CommandContext(m.Context(), "go", "build", "-o", program, "./test/fpgadevice/fpgamachine")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		m.Fatalf("build fpgamachine: %v\n%s", err, out)
	}
	command := exec.Command(program, "-machine", "mixed", m.path("tree"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		m.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := command.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if err := errors.Join(in.Close(), command.Wait()); err != nil {
			m.Error(err)
		}
	})
	m.in, m.answers = in, bufio.NewScanner(out)
	if got := m.answer(); got != "ok" {
		m.Fatalf("make the machine: %s", got)
	}
}

// ask says something to the machine, in words of fpgamachine, and returns its answer.
func (m *fpgas) ask(words string) string {
	m.Helper()
	if _, err := fmt.Fprintln(m.in, words); err != nil {
		m.Fatal(err)
	}
	return m.answer()
}

func (m *fpgas) answer() string {
	m.Helper()
	if !m.answers.Scan() {
		m.Fatalf("the machine does not answer: %v", m.answers.Err())
	}
	return m.answers.Text()
}

// say is ask, and wants an answer.
func (m *fpgas) say(words, answer string) {
	m.Helper()
	if got := m.ask(words); got != answer {
		m.Errorf("%s: the machine answers %q, want %q", words, got, answer)
	}
}

// TestFPGAProgramming verifies that kubelet's PreStartContainer has the cards of a pod
// programmed, by the drivers' own ioctls and once; that a start that the card or the
// file does not allow fails with the reason, and the next try works; and that the
// container gets the nodes of its ports and no other.
func TestFPGAProgramming(t *testing.T) {
	m := startFPGA(t)
	m.specsHeld = true
	pod := m.admit("pod", n3000, 2)
	m.say("calls", "ok program 0 reset 0")
	names := deviceNames(m.cdiNames(m.startContainer(pod)))
	if len(names) != 2 {
		t.Errorf("the container has the CDI devices %q, want two", names)
	}
	for _, name := range names {
		if nodes := m.nodes(name); len(nodes) != 1 || !strings.HasPrefix(nodes[0], "/dev/dfl-port.") {
			t.Errorf("%s has the nodes %q, want that of its port", name, nodes)
		}
	}
	m.say("calls", "ok program 2 reset 0")
	m.startContainer(pod) // once more, as after a crash
	m.say("calls", "ok program 2 reset 0")

	other := m.admit("other", n3000, 1)
	m.say("fail EBUSY", "ok")
	m.wantRefused(other, "crypto.gbs", "being programmed by another program")
	m.startContainer(other)
	m.say("calls", "ok program 4 reset 0")
	m.wantRefused(m.admit("foreign", d5005, 1), "crypto.gbs", "it is for the interface "+n3000Interface)
	m.say("calls", "ok program 4 reset 0")
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
