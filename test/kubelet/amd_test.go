package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

const (
	amdCPX = "amd.com/cpx_nps4"
	amdSPX = "amd.com/spx_nps1"
)

// machine is one with eight MI300X in CPX, as test/amdtree in the module two
// directories up makes it: 63 partitions, since one has no node.
type machine struct {
	*node
	dir     string
	in      io.Writer
	answers *bufio.Scanner
}

// startAMD is a node whose AMD backend finds that machine, with all partitions
// healthy.
func startAMD(t *testing.T, injection string) *machine {
	t.Helper()
	m := &machine{node: newNode(t, realkubelet.Options{})}
	m.dir = filepath.Join(filepath.Dir(m.agent.ConfigFile()), "amd")
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.plugIn()
	m.agent.Args = []string{"--devfs", filepath.Join(m.dir, "dev"), "--sysfs", filepath.Join(m.dir, "sys")}
	m.startKubelet()
	m.configure(agent.Config{
		Backend: agent.Backend{
			// An attempt of a reset takes the whole hive out of service for a moment.
			Name: "amd", Recovery: &agent.Recovery{Delay: "0s", Reset: "never"},
			Settings: map[string]any{
				"partitions": map[string]any{"strategy": "mixed"}, "poll": "100ms", "rescan": "1s", "health": map[string]any{"interval": "1s"},
			},
		},
		Resources: []agent.Resource{{Name: "amd.com/{computePartition}_{memoryPartition}", Injection: injection}, {Name: "amd.com/gpu"}},
	})
	m.startAgent()
	m.wantCounts(amdCPX, 63, 63)
	return m
}

// plugIn makes the machine.
func (m *machine) plugIn() {
	m.Helper()
	program := filepath.Join(m.TempDir(), "amdmachine")
	build := exec.CommandContext(m.Context(), "go", "build", "-o", program, "./test/amdtree/amdmachine")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		m.Fatalf("build amdmachine: %v\n%s", err, out)
	}
	command := exec.Command(program, "-machine", "mi300x", "-compute", "CPX", "-memory", "NPS4", m.dir)
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
	m.wantOK("the machine is made")
}

// change changes the machine; the words are those of amdmachine.
func (m *machine) change(words string) {
	m.Helper()
	if _, err := fmt.Fprintln(m.in, words); err != nil {
		m.Fatal(err)
	}
	m.wantOK(words)
}

func (m *machine) wantOK(what string) {
	m.Helper()
	if !m.answers.Scan() || m.answers.Text() != "ok" {
		m.Fatalf("%s: the machine answers %q, %v", what, m.answers.Text(), m.answers.Err())
	}
}

// wantNodes fails if the nodes of so many partitions are not KFD's, once, and of each
// partition a render node and a card node that no other has.
func (m *machine) wantNodes(nodes []string, partitions int) {
	m.Helper()
	kinds := map[string]int{}
	for _, node := range nodes {
		kinds[strings.TrimRight(node, "0123456789")]++
	}
	slices.Sort(nodes)
	if kinds["/dev/kfd"] != 1 || kinds["/dev/dri/renderD"] != partitions || kinds["/dev/dri/card"] != partitions ||
		len(slices.Compact(slices.Clone(nodes))) != 1+2*partitions {
		m.Errorf("%d partitions have the nodes %v", partitions, nodes)
	}
}

// TestAMDPartitions verifies that pods get partitions by the name of their style, with
// the nodes of those and no other, and that a card whose style is switched is another
// resource's while a pod keeps what it holds of another card.
func TestAMDPartitions(t *testing.T) {
	m := startAMD(t, "")
	m.specsHeld = true
	pod := m.admit("holder", amdCPX, 2)
	var all []string
	for _, name := range m.cdiNames(m.startContainer(pod)) {
		nodes := m.nodes(name)
		m.wantNodes(nodes, 1)
		all = append(all, slices.DeleteFunc(nodes, func(node string) bool { return node == "/dev/kfd" })...)
	}
	m.wantNodes(append(all, "/dev/kfd"), 2)

	held := m.held(pod, amdCPX)
	devices, err := m.agent.Devices(m.soon())
	if err != nil {
		t.Fatal(err)
	}
	switched, others := 0, 0
	for gpu := range 8 {
		// Of the cards only one, and none that the pod has a partition of.
		if !slices.ContainsFunc(held, func(id string) bool { return devices[id].PCIBusID == busID[gpu] }) {
			switched = gpu
		}
	}
	for _, d := range devices {
		if d.PCIBusID != busID[switched] {
			others++
		}
	}
	record := m.kubelet.Record(amdCPX, time.Millisecond)
	m.change(fmt.Sprintf("switch %d SPX NPS1", switched))
	m.wantCounts(amdSPX, 1, 1)
	m.wantCounts(amdCPX, int64(others), int64(others))
	m.wantNoDip(record, int64(others))
	whole := m.admit("whole", amdSPX, 1)
	m.wantNodes(m.nodes(m.cdiNames(m.startContainer(whole))[0]), 1)
	if again := m.held(pod, amdCPX); !slices.Equal(again, held) {
		t.Errorf("the pod holds %v, held %v", again, held)
	}
	m.startContainer(pod) // once more, as after a crash
}

// busID are the PCI addresses of the machine's cards, in its order.
var busID = []string{
	"0000:05:00.0", "0000:27:00.0", "0000:47:00.0", "0000:65:00.0", "0000:85:00.0", "0000:a7:00.0", "0000:c7:00.0", "0000:e5:00.0",
}
